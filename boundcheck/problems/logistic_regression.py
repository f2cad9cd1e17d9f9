"""Logistic regression with one ℓ₂ penalty for each weight (LR), section 4.1 and appendix C.1 of the paper.

E(w) = Σ_val ψ(y xᵀw),   ℓ(w, λ) = Σ_train ψ(y xᵀw) + ½ wᵀdiag(λ)w,   ψ(u) = log(1 + e⁻ᵘ),
μ = min λ,   L = λmax(¼XᵀX + diag λ)   (ψ'' ≤ ¼).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn.functional import logsigmoid

from boundcheck.constants import Constant
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region, closed_form
from boundcheck.numerics.bilevel.formulas import DataMatrix, Diagonal
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import POSITIVE
from boundcheck.problems.parts.largest_eigenvalue import top_beside
from boundcheck.problems.parts.minibatches import minibatches
from boundcheck.problems.parts.norm_bounds import spectral, top
from boundcheck.problems.parts.synthetic_data import drawn, linear_data, uniform
from boundcheck.problems.parts.tuned_step import Tuned, for_steps, problem_fields, step_constants, tuned

NAME = "lr"
TITLE = "logistic regression, one ℓ₂ penalty a weight"
generate = partial(linear_data, label=torch.sign)  # y = sign(Xw + noise), with normal X and w


class Ready(NamedTuple):
    """Quantities that depend only on λ."""

    lam: Tensor
    steps: Tuned


def make(
    *, seed: int = 0, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu", size: int = 50,
    features: int = 100, noise: float = 0.1, low: float = 0.01, high: float = 10.0, kappa: float | None = None,
    dynamics: str = "gradient-descent", differentiate_step: bool = False, batch: int | None = None,
    replacement: bool = True,
) -> Problem:  # fmt: skip
    """Logistic regression with one ℓ₂ penalty for each weight: the paper's LR.

    d = n = `features`. The module gives the formulas of E, ℓ, μ and L.

    Parameters
    ----------
    seed : int
        The seed of the data and of λ; 0 by default.
    dtype : torch.dtype
        The precision, `torch.float64` (the default) or `torch.float32`.
    device : torch.device or str
        The device; "cpu" by default.
    size : int
        The number of training examples, and of validation examples; 50 by default.
    features : int
        The number of features; 100 by default.
    noise : float
        The standard deviation of the noise in the targets; 0.1 by default.
    low : float
        The least value of λ; 0.01 by default.
    high : float
        The largest value of λ; 10 by default.
    kappa : float, optional
        The condition number L/μ at `problem.lam`, above 1; the data are scaled to have it. By default, the data are
        not scaled.
    dynamics : str
        "gradient-descent", "heavy-ball" or "nesterov", each with its best steps for μ and L; "gradient-descent"
        by default.
    differentiate_step : bool
        Whether to differentiate through the step α(λ); False by default, so that α is fixed.
    batch : int, optional
        The number of examples in a minibatch, for stochastic methods; by default there are no minibatches.
    replacement : bool
        Whether minibatches are drawn with replacement; True by default.

    Returns
    -------
    Problem
        The problem.

    Raises
    ------
    InputError
        If a size, `kappa` or the device cannot be used.
    UnknownNameError
        If there are no such dynamics.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.problems.logistic_regression(size=20, features=5)
    Problem(lr, d=5, n=5, gradient-descent, float64 on cpu)
    """
    data = generate(seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise)
    if kappa is not None:
        # otherwise min λ alone could make the condition number larger than kappa
        low = max(low, high / max(kappa, 1) ** 0.5)
    sampler = uniform(low, high, features)
    lam = drawn(sampler, seed, data.X)
    scale = 1.0 if kappa is None else _scale(data.X, lam, kappa)
    # ψ(y xᵀw) = log(1 + exp(uᵀw))
    U, U_val = -scale * data.y[:, None] * data.X, -scale * data.y_val[:, None] * data.X_val
    quarter = U.T @ U / 4

    def prepare(lam: Tensor) -> Ready:
        L = top(quarter + torch.diag(lam)) if differentiate_step else top_beside(lam, U / 2)
        return Ready(lam, tuned(dynamics, for_steps(lam.min(), differentiate_step), L))

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        return -logsigmoid(-(U @ w)).sum() + (ready.lam * w * w).sum() / 2

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - ready.steps.alpha * (U.T @ torch.sigmoid(U @ w) + ready.lam * w)

    def d1phi_T_at(w: Tensor, ready: Ready) -> DataMatrix:
        """∂₁Φ = diag(1 − αλ) − αUᵀdiag(σ')U."""
        s, alpha = torch.sigmoid(torch.tensordot(U, w, 1)), ready.steps.alpha
        return DataMatrix(U, alpha * s * (s - 1), 1 - alpha * ready.lam)

    def d2phi_T_at(w: Tensor, ready: Ready) -> Diagonal:
        """∂₂Φ = −α diag(w) with a fixed step."""
        return Diagonal(-ready.steps.alpha * w)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return -logsigmoid(-(U_val @ w)).sum()

    def phi_on(w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        """Φ with the gradient of Σ Ψ_i, Ψ_i = ψ(y_i x_iᵀw), replaced by the mean gradient of NΨ_i over a minibatch."""
        rows = U[indices]
        sums = rows.T @ torch.sigmoid(rows @ w)
        return w - ready.steps.alpha * (size / len(indices) * sums + ready.lam * w)

    def inner_on(w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        z = U[indices] @ w
        # log(1 + e^z); second derivatives of `logsigmoid` warn under vmap if z is a single number
        return size * torch.logaddexp(z, torch.zeros_like(z)).mean() + (ready.lam * w * w).sum() / 2

    def slopes(ready: Ready, centre: Tensor, radius: float) -> Tensor:
        """∇₁²ℓ_i = Nσ'(u_iᵀw)u_iu_iᵀ + diag λ, between min λ and N sup σ' ‖u_i‖² + max λ."""
        norms = U.norm(dim=1)
        largest = size * _largest_slope(U @ centre, norms * radius) * norms**2 + ready.lam.max()
        return torch.stack((ready.lam.min().expand_as(largest), largest), dim=1)

    return Problem(
        name=NAME, w0=lam.new_zeros(features), lam=lam, phi_at=phi_at, outer_at=outer_at, inner_at=inner_at,
        prepare=prepare, d1phi_T_at=d1phi_T_at, d2phi_T_at=None if differentiate_step else d2phi_T_at,
        domain=POSITIVE, sampler=sampler, seed=seed,
        known=closed_forms(U, U_val, prepare, differentiate_step), **problem_fields(dynamics),
        finite_sum=minibatches(
            size, batch, replacement, phi_on, inner_on, lam_apart=not differentiate_step, slopes=slopes
        ),
    )  # fmt: skip


def _scale(X: Tensor, lam: Tensor, kappa: float) -> float:
    """Return c with λmax(¼c²XᵀX + diag λ) = κ min λ. The left-hand side grows with c."""
    if not 1 < kappa < float("inf"):
        raise InputError(f"kappa = {kappa} is not a condition number to aim at; give a finite number above 1")
    G, ridge = X.T @ X / 4, torch.diag(lam)
    target = kappa * float(lam.min())

    def excess(c: float) -> float:
        return float(torch.linalg.eigvalsh(c * c * G + ridge)[-1]) - target

    return float(brentq(excess, 0.0, 2 * (target / float(torch.linalg.eigvalsh(G)[-1])) ** 0.5, xtol=1e-15))


PEAK = math.log(2 + math.sqrt(3))  # the u with the largest |σ''|, which is 1/(6√3)
OMEGA = 0.2784645427610738  # W(1/e), the maximum of z/(1 + eᶻ)
STEPS = 100


def closed_forms(U: Tensor, U_val: Tensor, prepare: Callable[[Tensor], Ready], differentiate_step: bool) -> ClosedForms:
    """Return the constants. The rows u of U are −y x, and on the ball uᵀw is within ‖u‖·radius of uᵀcentre.

    η₁: ∇₁E(w) − ∇₁E(w*) = U'ᵀdiag(s)U'(w − w*) with 0 ≤ s_i ≤ sup σ'(u_iᵀw), which is at most ¼.
    ρ̂₁: ∇²₁ℓ(w) − ∇²₁ℓ(w*) = Uᵀdiag(r)U with |r_i| ≤ c_i|u_iᵀδ|, δ = w − w*, c_i = sup |σ''(u_iᵀw)|. By Hölder its norm
    is at most ‖δ‖ times sup Σ c_i|u_iᵀa|³ = sup Σ|v_iᵀa|³ over unit a, where V has the rows v_i = c_i^⅓ u_i. This is at
    most λmax(Vᵀdiag‖v_i‖V), and at most ‖V‖(Σ(v_iᵀa)⁴)^½. This root is sup Σ z_i(v_iᵀa)² over unit z, which is at most
    sup ‖Σ z_i v_i v_iᵀ‖_F = λmax(VVᵀ∘VVᵀ)^½.
    ρ̂₂, L_Φ: ∇²₂₁ℓ = diag(w) has norm ‖w‖_∞, so ρ̂₂ = 1, and the supremum over the ball is ‖centre‖_∞ + radius.

    Let ∇α = −G with G = (α²/2)(e_i + v∘v) ≥ 0, where i is the place of min λ and v the eigenvector of L. Then ∂₂Φ has
    an additional part ∇₁ℓ Gᵀ. Along δ, with the mean M of ∇²₁ℓ between w* and w, ‖−α diag(δ) + MδGᵀ‖_F² = α²‖δ‖²
    + ‖Mδ‖²‖G‖² − αδᵀ(diag(G)M + M diag(G))δ. For A, B ≽ 0, AB + BA ≽ −‖A‖‖B‖/4: 2A/‖A‖ − I and 2B/‖B‖ − I map a unit x
    to r, s with norms ≤ 1, and xᵀ(AB + BA)x = ½‖A‖‖B‖(x + r)ᵀ(x + s) = ¼‖A‖‖B‖(‖x + r + s‖² + 1 − ‖r‖² − ‖s‖²).
    Hence ν₂² ≤ α² + L²‖G‖² + αL‖G‖_∞/4, and L_Φ = ‖∂₂Φ(centre)‖ + ν₂·radius.

    D: w*ᵀΛw* = −Σ zσ(z) ≤ OMEGA·n for z = Uw*. For every w and g = ∇₁ℓ(w), monotonicity gives
    gᵀ(w − w*) ≥ ‖w − w*‖²_Λ. So w* is in the ellipsoid around w − ½Λ⁻¹g with ‖·‖_Λ ≤ ½(gᵀΛ⁻¹g)^½, and
    ‖w*‖ ≤ ‖w − ½Λ⁻¹g‖ + ½(gᵀΛ⁻¹g/μ)^½. For w = 0 this is at most ‖∇₁ℓ(0)‖/μ; steps w − (¼UᵀU + Λ)⁻¹g improve it.
    """
    quarter = U.T @ U / 4

    def gradient(w: Tensor, lam: Tensor) -> Tensor:
        return U.T @ torch.sigmoid(U @ w) + lam * w

    def slope(ready: Ready) -> Tensor:
        """Return ∇α, or 0 for a fixed step."""
        if not differentiate_step:
            return torch.zeros_like(ready.lam)
        v = torch.linalg.eigh(quarter + torch.diag(ready.lam)).eigenvectors[:, -1]
        at_least = (ready.lam == ready.lam.min()).to(v)
        grad_alpha: Tensor = -(ready.steps.alpha**2) / 2 * (at_least / at_least.sum() + v * v)
        return grad_alpha

    def reach(ready: Ready) -> Tensor:
        lam, mu, eps = ready.lam, ready.steps.mu, torch.finfo(ready.lam.dtype).eps

        def ellipsoid(w: Tensor) -> Tensor:
            g = gradient(w, lam)
            rounding = eps * (spectral(U) * len(U) ** 0.5 + lam.max() * w.norm())
            reach: Tensor = (w - g / lam / 2).norm() + (g * g / lam / mu).sum().sqrt() / 2 + rounding / mu
            return reach

        factor = torch.linalg.cholesky(quarter + torch.diag(lam))
        w = torch.zeros_like(lam)
        least = torch.minimum(ellipsoid(w), (OMEGA * len(U) / mu).sqrt())
        for _ in range(STEPS):
            w = w - torch.cholesky_solve(gradient(w, lam)[:, None], factor)[:, 0]
        return torch.minimum(least, ellipsoid(w))

    def everywhere(lam: Tensor) -> tuple[Constant, ...]:
        ready = prepare(lam)
        how = f"‖w − ½Λ⁻¹g‖ + ½(gᵀΛ⁻¹g/μ)^½ at w after {STEPS} steps w − (¼XᵀX + Λ)⁻¹g from 0, g = ∇₁ℓ(w)"
        D = closed_form("D", reach(ready), how)
        return *step_constants(ready.steps, slope(ready) if differentiate_step else None), D

    def on(lam: Tensor, region: Region) -> tuple[Constant, ...]:
        ready, c, radius = prepare(lam), region.point, region.radius
        L, alpha, G = ready.steps.L, ready.steps.alpha, -slope(ready)
        V = _steepest_slope(U @ c, U.norm(dim=1) * radius)[:, None] ** (1 / 3) * U
        rows = V.norm(dim=1, keepdim=True)
        rho_1 = torch.minimum(spectral(V) * top((V @ V.T) ** 2).sqrt(), spectral(rows.sqrt() * V) ** 2)
        nu_2 = (alpha**2 + (L * G.norm()) ** 2 + alpha * L * G.max() / 4).sqrt()
        L_Phi = spectral(torch.outer(gradient(c, lam), G) - alpha * torch.diag(c)) + nu_2 * radius

        u, spread = U_val @ c, U_val.norm(dim=1) * radius
        eta_1 = spectral(_largest_slope(u, spread).sqrt()[:, None] * U_val) ** 2
        low, high = torch.sigmoid(u - spread), torch.sigmoid(u + spread)
        L_E = torch.stack((
            (U_val.T @ torch.sigmoid(u)).norm() + eta_1 * radius,
            (U_val.T @ (high + low)).norm() / 2 + spectral(U_val) * (high - low).norm() / 2,
            U_val.sum(0).norm() / 2 + spectral(U_val) * len(U_val) ** 0.5 / 2,
        )).min()  # fmt: skip
        how_E = "least of ‖∇₁E(centre)‖ + η₁·radius and ‖X'ᵀm‖ + ‖X'‖‖h‖ with σ(u) between m − h and m + h"
        cubes = "min(‖V‖λmax(VVᵀ∘VVᵀ)^½, λmax(Vᵀdiag‖v_i‖V)), v_i = (sup |σ''|)^⅓ x_i"
        fixed = not differentiate_step
        return (
            closed_form("L_E", L_E, how_E, region),
            closed_form("L_Phi", L_Phi, "‖∂₂Φ(centre)‖ + ν₂·radius", region, exact=fixed),
            closed_form("nu_1", alpha * rho_1, f"α·{cubes}", region),
            closed_form("nu_2", nu_2, "(α² + L²‖∇α‖² + αL‖∇α‖_∞/4)^½", region, exact=fixed),
            closed_form("eta_1", eta_1, "λmax(X'ᵀdiag(sup σ')X')", region),
            closed_form("eta_2", 0.0, "E does not depend on λ", region, exact=True),
            closed_form("hat_rho_1", rho_1, cubes, region),
            closed_form("hat_rho_2", 1.0, "1, as ∇²₂₁ℓ = diag(w)", region, exact=True),
        )

    return ClosedForms(everywhere, on)


def _largest_slope(u: Tensor, spread: Tensor) -> Tensor:
    """Return the supremum of σ' within `spread` of u. σ' falls with |u|."""
    s = torch.sigmoid((u.abs() - spread).clamp_min(0))
    return s * (1 - s)


def _steepest_slope(u: Tensor, spread: Tensor) -> Tensor:
    """Return the supremum of |σ''| within `spread` of u. |σ''| = σ'|1 − 2σ| rises with |u| up to PEAK, then falls."""
    s = torch.sigmoid(torch.clamp(torch.full_like(u, PEAK), (u.abs() - spread).clamp_min(0), u.abs() + spread))
    return s * (1 - s) * (2 * s - 1)

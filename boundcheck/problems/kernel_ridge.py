"""Kernel ridge regression with one width for each feature (KRR), section 4.1 and appendix C.1 of the paper.

E(w, λ) = ½‖y' − K'(γ)w‖²,   ℓ(w, λ) = ½wᵀ(K(γ) + βI)w − wᵀy,   λ = (β, γ),
K(γ)_ij = exp(−(x_i − x_j)ᵀdiag(γ)(x_i − x_j)),   μ, L = β + λ_min, λ_max(K).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region, closed_form
from boundcheck.numerics.bilevel.derivatives import CACHE
from boundcheck.numerics.bilevel.formulas import FullMatrices
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import POSITIVE
from boundcheck.problems.parts.norm_bounds import Solved, affine_norm, farthest, solved, spectral, tensor_norm
from boundcheck.problems.parts.synthetic_data import DataSplit, drawn, linear_data, ridge_for, uniform
from boundcheck.problems.parts.tuned_step import Tuned, for_steps, problem_fields, step_constants, tuned

NAME = "krr"
TITLE = "kernel ridge regression, one width a feature"
generate = linear_data  # y = Xw + noise, with normal X and w


class Ready(NamedTuple):
    """Quantities that depend only on λ: the kernel matrices and the steps."""

    slope: Tensor  # the derivative of (β, γ) with respect to λ, entry by entry
    H: Tensor  # K + βI
    K_val: Tensor
    steps: Tuned


def regression(
    name: str, data: DataSplit, lam: Tensor, dynamics: str, differentiate_step: bool,
    positive: Callable[[Tensor], Tensor] = lambda lam: lam, slope: Callable[[Tensor], Tensor] = torch.ones_like,
    **rest: Any,
) -> Problem:  # fmt: skip
    """Return kernel ridge regression on `data` with (β, γ) = positive(λ), entry by entry.

    `slope` is the derivative of `positive`, and `rest` are fields of `Problem`.
    """
    Q, Q_val = squared_differences(data.X, data.X), squared_differences(data.X_val, data.X)
    eye = torch.eye(len(data.y), dtype=data.y.dtype, device=data.y.device)

    def prepare(lam: Tensor) -> Ready:
        beta, gamma = positive(lam[0]), positive(lam[1:])
        H = kernel(Q, gamma) + beta * eye
        eigenvalues = torch.linalg.eigvalsh(for_steps(H, differentiate_step))
        steps = tuned(dynamics, eigenvalues[0], eigenvalues[-1])
        return Ready(slope(lam.detach()), H, kernel(Q_val, gamma), steps)

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        return w @ (ready.H @ w) / 2 - w @ data.y

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - ready.steps.alpha * (ready.H @ w - data.y)

    def d2phi_T_at(w: Tensor, ready: Ready) -> FullMatrices:
        """∂₂Φ = −α[w, −(Q_j∘K)w]_j with a fixed step. H and K differ only on the diagonal, where Q_j is 0."""
        by_gamma = (w @ (Q * ready.H).flatten(0, 1).mT).view(len(w), len(Q), -1)
        d2_T = w.new_empty(len(w), 1 + len(Q), w.shape[1])
        scale = (ready.steps.alpha * ready.slope)[:, None]
        torch.mul(-scale[0], w, out=d2_T[:, 0])
        torch.mul(scale[1:], by_gamma, out=d2_T[:, 1:])
        return FullMatrices(d2_T)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return ((data.y_val - ready.K_val @ w) ** 2).sum() / 2

    def d2outer_at(w: Tensor, ready: Ready) -> Tensor:
        """[0, −rᵀ(Q'_k∘K')w]_k with r = K'w − y', where Q'_kij = a_ik² + b_jk² − 2a_ik b_jk for the data a and b."""
        A, B, K = data.X_val, data.X, ready.K_val
        Kw = w @ K.mT
        r = Kw - data.y_val
        by_gamma = (r * Kw) @ A**2 + (w * (r @ K)) @ B**2
        count = max(1, CACHE // B.numel())
        for start in range(0, len(w), count):
            part = slice(start, start + count)
            along = (K @ (w[part].mT[:, :, None] * B[:, None]).flatten(1)).view(len(A), -1, A.shape[1])
            by_gamma[part] -= 2 * along.mul_(A[:, None]).mul_(r[part].mT[:, :, None]).sum(dim=0)
        return -ready.slope * torch.cat((torch.zeros_like(r[:, :1]), by_gamma), dim=1)

    return Problem(
        name=name, w0=torch.zeros_like(data.y), lam=lam, phi_at=phi_at, outer_at=outer_at, inner_at=inner_at,
        prepare=prepare, d2phi_T_at=None if differentiate_step else d2phi_T_at, d2outer_at=d2outer_at,
        affine=True, solution=lambda ready: torch.linalg.solve(ready.H, data.y),
        known=closed_forms(data, Q, Q_val, prepare, positive, slope, differentiate_step),
        **problem_fields(dynamics), **rest,
    )  # fmt: skip


def make(
    *, seed: int = 0, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu", size: int = 50,
    features: int = 100, noise: float = 0.1, low: float = 0.0005, high: float = 0.005, kappa: float | None = None,
    dynamics: str = "heavy-ball", differentiate_step: bool = False,
) -> Problem:  # fmt: skip
    """Kernel ridge regression with one width for each feature: the paper's KRR.

    λ = (β, γ): the ridge and the widths, all positive. d = `size`, n = 1 + `features`.

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
        The least value of λ; 0.0005 by default.
    high : float
        The largest value of λ; 0.005 by default.
    kappa : float, optional
        The condition number L/μ at `problem.lam`, above 1; it determines β, and γ if needed. By default λ is drawn.
    dynamics : str
        "gradient-descent", "heavy-ball" or "nesterov", each with its best steps for μ and L; "heavy-ball" by
        default.
    differentiate_step : bool
        Whether to differentiate through the step α(λ); False by default, so that α is fixed.

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
    >>> bc.problems.kernel_ridge(size=20, features=5)
    Problem(krr, d=20, n=6, heavy-ball, float64 on cpu)
    """
    data = generate(seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise)
    sampler = uniform(low, high, 1 + features)
    lam = drawn(sampler, seed, data.X)
    if kappa is not None:
        lam = _conditioned(data.X, lam, kappa)
    return regression(NAME, data, lam, dynamics, differentiate_step, domain=POSITIVE, sampler=sampler, seed=seed)


def squared_differences(A: Tensor, B: Tensor) -> Tensor:
    """Return Q with Q_kij = (a_ik − b_jk)², a matrix for each feature k."""
    return ((A.T[:, :, None] - B.T[:, None, :]) ** 2).contiguous()


def kernel(Q: Tensor, gamma: Tensor) -> Tensor:
    """Return K(γ)_ij = exp(−Σ_k γ_k Q_kij)."""
    return torch.exp(-(Q.flatten(1).mT @ gamma).view(Q.shape[1:]))


class _KernelDerivatives(NamedTuple):
    """Derivatives ∂_j along λ_0 (β) and λ_j (γ_j) at one λ, for the constants."""

    ready: Ready
    dH: Tensor  # ∂_jH for H = K + βI: I for β, −Q_j∘K for γ_j, times the slope of β or γ_j in λ
    dK_val: Tensor  # ∂_jK' for γ_j; for β it is 0
    dalpha: Tensor  # ∂_jα = −(α²/2)∂_j(μ+L); 0 for a fixed step
    solution: Solved


def closed_forms(
    data: DataSplit, Q: Tensor, Q_val: Tensor, prepare: Callable[[Tensor], Ready], positive: Callable[[Tensor], Tensor],
    slope: Callable[[Tensor], Tensor], differentiate_step: bool,
) -> ClosedForms:  # fmt: skip
    """Return the constants. ∂_jμ and ∂_jL are vᵀ∂_jHv for the unit eigenvectors v of μ and L.

    ∂₂Φ(w) = −[M_j w − ∂_jα y]_j with M_j = α∂_jH + ∂_jα H is affine in w, so ν₂ = sup ‖[M_j δ]_j‖ over unit δ. The
    bound by `tensor_norm` is better than α·sup ‖[∂_jH δ]_j‖ + L‖∇α‖.

    ∂_jE(w) = (K'w − y')ᵀ∂_jK' w is quadratic, so ∇₂E(w) − ∇₂E(w*) = [B_j m − ∂_jK'ᵀy']_jᵀ(w − w*) with
    B_j = K'ᵀ∂_jK' + ∂_jK'ᵀK' and m = (w + w*)/2, which is within radius/2 of (centre + w*)/2.
    """

    @lru_cache(maxsize=1)  # by identity, because callers use the same λ for several balls
    def derivatives_at(lam: Tensor) -> _KernelDerivatives:
        ready, scale = prepare(lam), slope(lam)
        H, alpha = ready.H, ready.steps.alpha
        eye = torch.eye(len(H), dtype=H.dtype, device=H.device)
        dH = scale[:, None, None] * torch.cat((eye[None], -Q * H))  # H and K differ on the diagonal, where Q_j is 0
        dalpha = torch.zeros_like(lam)
        if differentiate_step:
            ends = torch.linalg.eigh(H).eigenvectors[:, [0, -1]]
            dalpha = -(alpha**2) / 2 * ((dH @ ends) * ends).sum((1, 2))
        w = torch.linalg.solve(H, data.y)
        rounding = torch.linalg.matrix_norm(H) * w.norm() + data.y.norm()
        mu, L = _ends(data.X, positive(lam.to(device="cpu", dtype=torch.float64)))
        solution = solved(w, H @ w - data.y, rounding, mu.to(H))
        ready = ready._replace(steps=ready.steps._replace(mu=mu, L=L, alpha=alpha.cpu().double()))
        return _KernelDerivatives(ready, dH, -scale[1:, None, None] * Q_val * ready.K_val, dalpha, solution)

    def everywhere(lam: Tensor) -> tuple[Constant, ...]:
        derivatives = derivatives_at(lam)
        how = "‖w‖ + ‖∇₁ℓ(w)‖/μ at the computed w = (K + βI)⁻¹y"
        D = closed_form("D", derivatives.solution.reach, how)
        return *step_constants(derivatives.ready.steps, derivatives.dalpha if differentiate_step else None), D

    def on(lam: Tensor, region: Region) -> tuple[Constant, ...]:
        derivatives, c = derivatives_at(lam), region.point
        H, K_val, alpha = (
            derivatives.ready.H,
            derivatives.ready.K_val,
            derivatives.ready.steps.alpha.to(derivatives.ready.H),
        )
        M = alpha * derivatives.dH + derivatives.dalpha[:, None, None] * H
        rho_2 = tensor_norm(derivatives.dH)
        nu_2 = tensor_norm(M) if differentiate_step else alpha * rho_2  # M = α∂_jH for a frozen step
        L_Phi = affine_norm(M, M @ c - torch.outer(derivatives.dalpha, data.y), region.radius, nu_2)

        product = K_val.T @ derivatives.dK_val
        B, middle = product + product.mT, (c + derivatives.solution.w) / 2
        eta_2 = affine_norm(
            B, B @ middle - data.y_val @ derivatives.dK_val, (region.radius + derivatives.solution.error) / 2
        )
        L_E = farthest(K_val.T @ K_val, K_val.T @ (K_val @ c - data.y_val), region.radius)
        flattened = "the lesser flattening norm of"
        return (
            closed_form("L_E", L_E, "sup ‖K'ᵀ(K'w − y')‖ over the ball, by duality", region),
            closed_form(
                "L_Phi",
                L_Phi,
                "sup of ‖∂₂Φ‖ over the ball: ‖∂₂Φ(centre)‖ + ν₂·radius, or in the Frobenius norm",
                region,
            ),
            closed_form("nu_1", 0.0, "∂₁Φ does not depend on w", region, exact=True),
            closed_form("nu_2", nu_2, f"{flattened} [α∂_jH + ∂_jα H]_j", region),
            closed_form("eta_1", spectral(K_val) ** 2, "‖K'‖²", region, exact=True),
            closed_form("eta_2", eta_2, "sup of ‖[B_j m − ∂_jK'ᵀy']_j‖ over ‖m − (centre+w*)/2‖ ≤ radius/2", region),
            closed_form("hat_rho_1", 0.0, "∇²₁ℓ does not depend on w", region, exact=True),
            closed_form("hat_rho_2", rho_2, f"{flattened} [∂_jH]_j", region),
        )

    return ClosedForms(everywhere, on)


def _ends(X: Tensor, beta_gamma: Tensor) -> Tensor:
    """Return μ and L of the stored data in double precision; with a float32 kernel, μ has an error of κ roundings."""
    X = X.to(device="cpu", dtype=torch.float64)
    eigenvalues: Tensor = torch.linalg.eigvalsh(kernel(squared_differences(X, X), beta_gamma[1:])) + beta_gamma[0]
    return eigenvalues[[0, -1]]


def _conditioned(X: Tensor, lam: Tensor, kappa: float) -> Tensor:
    """Return λ with β such that L/μ = κ. γ is halved until the condition number of the kernel matrix exceeds 2κ."""
    Q = squared_differences(X, X)
    for _ in range(60):
        eigenvalues = torch.linalg.eigvalsh(kernel(Q, lam[1:]))
        if eigenvalues[-1] > 2 * kappa * eigenvalues[0]:
            break
        lam = lam / 2
    return torch.cat((lam.new_tensor([ridge_for(eigenvalues[0], eigenvalues[-1], kappa)]), lam[1:]))

"""Ridge regression on a learnt linear representation (HR), section 4.1 and appendix C.1 of the paper.

E(w, H) = ½‖X'Hw − y'‖²,   ℓ(w, H) = ½‖XHw − y‖² + (β/2)‖w‖²,   λ = H ∈ R^{p×d},   μ, L = β + λ_min, λ_max(HᵀXᵀXH).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region, closed_form
from boundcheck.numerics.bilevel.formulas import DataMatrix, OuterProducts
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems.parts.norm_bounds import Solved, farthest, solved, spectral, top
from boundcheck.problems.parts.synthetic_data import DataSplit, Draw, drawn, linear_data, ridge_for, uniform
from boundcheck.problems.parts.tuned_step import Tuned, for_steps, problem_fields, step_constants, tuned

NAME = "hr"
TITLE = "hyper-representation: ridge regression on learnt features"


class Ready(NamedTuple):
    """Quantities that depend only on H: the represented data and the steps."""

    H: Tensor
    A: Tensor  # XH
    steps: Tuned


def weights(draw: Draw, features: int, represented: int = 200) -> Tensor:
    """Return Hw, with normal H and w."""
    w_true, H_true = draw.normal(represented), draw.normal(features, represented)
    return H_true @ w_true


generate = partial(linear_data, weights=weights)  # y = XHw + noise, with normal X


def make(
    *, seed: int = 0, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu", size: int = 50,
    features: int = 100, represented: int = 200, noise: float = 0.1, low: float = -1.0, high: float = 1.0,
    ridge: float = 10.0, kappa: float | None = None, dynamics: str = "heavy-ball", differentiate_step: bool = False,
) -> Problem:  # fmt: skip
    """Ridge regression on a learnt linear representation: the paper's HR.

    λ = H, of `features` × `represented` entries; d = `represented`.

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
    represented : int
        The number of entries of w, the dimension of the representation; 200 by default.
    noise : float
        The standard deviation of the noise in the targets; 0.1 by default.
    low : float
        The least value of the entries of H; -1 by default.
    high : float
        The largest value of the entries of H; 1 by default.
    ridge : float
        The weight β of the penalty, positive; 10 by default.
    kappa : float, optional
        The condition number L/μ at `problem.lam`, above 1; it determines β, in place of `ridge`.
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
    >>> bc.problems.hyper_representation(size=20, features=5, represented=8)
    Problem(hr, d=8, n=40, heavy-ball, float64 on cpu)
    """
    data = generate(
        seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise,
        weights=partial(weights, represented=represented),
    )  # fmt: skip
    sampler = uniform(low, high, features * represented)
    lam = drawn(sampler, seed, data.X)

    def spectrum(A: Tensor) -> tuple[Tensor, Tensor]:
        """Return λ_min and λ_max of AᵀA, from the smaller of the two Gram matrices."""
        wide = represented > size
        eigenvalues = torch.linalg.eigvalsh(A @ A.mT if wide else A.mT @ A)
        return torch.zeros_like(eigenvalues[0]) if wide else eigenvalues[0], eigenvalues[-1]

    if kappa is not None:
        ridge = ridge_for(*spectrum(data.X @ lam.view(features, represented)), kappa)

    def prepare(lam: Tensor) -> Ready:
        H = lam.view(features, represented)
        A = data.X @ H
        least, most = spectrum(for_steps(A, differentiate_step))
        return Ready(H, A, tuned(dynamics, least + ridge, most + ridge))

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        return ((ready.A @ w - data.y) ** 2).sum() / 2 + ridge * (w * w).sum() / 2

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - ready.steps.alpha * (ready.A.mT @ (ready.A @ w - data.y) + ridge * w)

    def d1phi_T_at(w: Tensor, ready: Ready) -> DataMatrix:
        """∂₁Φ = (1 − αβ)I − αAᵀA."""
        return DataMatrix(ready.A, -ready.steps.alpha, 1 - ready.steps.alpha * ridge)

    def d2phi_T_at(w: Tensor, ready: Ready) -> OuterProducts:
        """−α(evᵀ + (XᵀAv)wᵀ), e = Xᵀ(Aw − y), with a fixed step."""
        alpha = ready.steps.alpha
        e = -alpha * (w @ ready.A.mT - data.y) @ data.X
        return OuterProducts(e, w, lambda v: (v @ (-alpha * ready.A.mT)) @ data.X)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return ((data.X_val @ (ready.H @ w) - data.y_val) ** 2).sum() / 2  # not (X'H)w: ∇₂E is one outer product

    def d2outer_at(w: Tensor, ready: Ready) -> Tensor:
        """X'ᵀ(X'Hw − y')wᵀ."""
        e = ((w @ ready.H.mT) @ data.X_val.mT - data.y_val) @ data.X_val
        return (e[:, :, None] * w[:, None]).flatten(1)

    def solution(ready: Ready) -> Tensor:
        """(AᵀA + βI)⁻¹Aᵀy = Aᵀ(AAᵀ + βI)⁻¹y, from the smaller of the two systems."""
        A, eye = ready.A, torch.eye(min(size, represented), dtype=dtype, device=device)
        if represented > size:
            w: Tensor = A.mT @ torch.linalg.solve(A @ A.mT + ridge * eye, data.y)
        else:
            w = torch.linalg.solve(A.mT @ A + ridge * eye, A.mT @ data.y)
        return w

    return Problem(
        name=NAME, w0=lam.new_zeros(represented), lam=lam, phi_at=phi_at, outer_at=outer_at, inner_at=inner_at,
        prepare=prepare, d1phi_T_at=d1phi_T_at, d2phi_T_at=None if differentiate_step else d2phi_T_at,
        d2outer_at=d2outer_at, affine=True, solution=solution, sampler=sampler, seed=seed,
        known=closed_forms(data, ridge, prepare, solution, differentiate_step), **problem_fields(dynamics),
    )  # fmt: skip


def pair_form(C: Tensor, e: Tensor, w: Tensor) -> Tensor:
    """Return the matrix of the quadratic form ‖eaᵀ + Cawᵀ‖_F² = ‖e‖²‖a‖² + ‖w‖²‖Ca‖² + 2(aᵀCᵀe)(wᵀa) in a."""
    crossed = torch.outer(C.T @ e, w)
    eye = torch.eye(len(w), dtype=w.dtype, device=w.device)
    return (e @ e) * eye + (w @ w) * (C.T @ C) + crossed + crossed.T


def closed_forms(
    data: DataSplit, ridge: float, prepare: Callable[[Tensor], Ready], solution: Callable[[Ready], Tensor],
    differentiate_step: bool,
) -> ClosedForms:  # fmt: skip
    """Return the constants, with A = XH, C = XᵀA, e(w) = Xᵀ(Aw − y), G = ∇α, and Frobenius norms for λ.

    aᵀ∂₂Φ(w) is the matrix −(α(eaᵀ + Cawᵀ) + (aᵀ∇₁ℓ)G), so ‖∂₂Φ(w)‖² is λmax of a quadratic form in a.
    Its part that is linear in w is, along δ, α(Cδaᵀ + Caδᵀ) + (aᵀ∇²₁ℓδ)G. This is symmetric in a and δ, so its norm is
    largest for a = δ. There the square is aᵀ(4α²CᵀC + 2αh(CᵀG + GᵀC))a + h²‖G‖² with h = aᵀ∇²₁ℓa between μ and L. It is
    at most λmax(4α²CᵀC + 2αh(CᵀG + GᵀC)) + h²‖G‖², which is convex in h. So ν₂² is the larger of the values at h = μ
    and h = L; if G = 0, it is 4α²‖C‖².

    ∇μ and ∇L are 2Cvvᵀ for the unit eigenvectors v of μ and L (∇μ = 0 if AᵀA is singular for every H).
    ∇₂E(w) = X'ᵀ(A'w − y')wᵀ, so ∇₂E(w) − ∇₂E(w*) = e'(m)δᵀ + C'δmᵀ with δ = w − w* and m = (w + w*)/2. The point m is
    within radius/2 of (centre + w*)/2. There the supremum over unit δ is a λmax; a change s of m adds at most 2‖C'‖‖s‖.
    """
    X, y, X_val, y_val = data.X, data.y, data.X_val, data.y_val

    def gradient(w: Tensor, ready: Ready) -> Tensor:
        return ready.A.T @ (ready.A @ w - y) + ridge * w

    def gradient_of_step(ready: Ready) -> Tensor:
        A, alpha = ready.A, ready.steps.alpha
        ends = [-1] if A.shape[1] > A.shape[0] else [0, -1]
        v = torch.linalg.eigh(A.T @ A).eigenvectors[:, ends]
        G: Tensor = -(alpha**2) * (X.T @ (A @ v)) @ v.T
        return G

    def solution_at(ready: Ready) -> Solved:
        w = solution(ready)
        rounding = ready.steps.L.sqrt() * (torch.linalg.matrix_norm(ready.A) * w.norm() + y.norm())
        return solved(w, gradient(w, ready), rounding, ready.steps.mu)

    def everywhere(lam: Tensor) -> tuple[Constant, ...]:
        ready = prepare(lam)
        D = closed_form("D", solution_at(ready).reach, "‖w‖ + ‖∇₁ℓ(w)‖/μ at the computed w = (AᵀA + βI)⁻¹Aᵀy, A = XH")
        return *step_constants(ready.steps, gradient_of_step(ready) if differentiate_step else None), D

    def on(lam: Tensor, region: Region) -> tuple[Constant, ...]:
        ready, c, radius = prepare(lam), region.point, region.radius
        A_val, alpha = X_val @ ready.H, ready.steps.alpha
        C, C_val = X.T @ ready.A, X_val.T @ A_val
        G = gradient_of_step(ready) if differentiate_step else torch.zeros_like(C)
        steep, crossed = (G * G).sum(), C.T @ G
        ends = [
            top(4 * alpha**2 * C.T @ C + 2 * alpha * h * (crossed + crossed.T)) + h * h * steep
            for h in (ready.steps.mu, ready.steps.L)
        ]
        nu_2 = torch.stack(ends).max().sqrt()
        e, g = C @ c - X.T @ y, gradient(c, ready)
        mixed = torch.outer(g, G.T @ e + C.T @ (G @ c))
        form = alpha**2 * pair_form(C, e, c) + alpha * (mixed + mixed.T) + steep * torch.outer(g, g)

        near = solution_at(ready)
        middle = (c + near.w) / 2
        at_middle = top(pair_form(C_val, C_val @ middle - X_val.T @ y_val, middle)).sqrt()
        L_E = farthest(A_val.T @ A_val, A_val.T @ (A_val @ c - y_val), radius)
        rate = "max over h = μ, L of (λmax(4α²CᵀC + 2αh(CᵀG + GᵀC)) + h²‖G‖²)^½, C = XᵀXH, G = ∇α"
        return (
            closed_form("L_E", L_E, "sup ‖A'ᵀ(A'w − y')‖ over the ball, by duality; A' = X'H", region),
            closed_form("L_Phi", top(form).sqrt() + nu_2 * radius, "‖∂₂Φ(centre)‖ + ν₂·radius", region),
            closed_form("nu_1", 0.0, "∂₁Φ does not depend on w", region, exact=True),
            closed_form("nu_2", nu_2, rate if differentiate_step else "2α‖XᵀXH‖", region, exact=not differentiate_step),
            closed_form("eta_1", spectral(A_val) ** 2, "‖X'H‖²", region, exact=True),
            closed_form(
                "eta_2", at_middle + spectral(C_val) * (radius + near.error),
                "sup ‖e'(m)δᵀ + C'δmᵀ‖ over unit δ at m = (centre+w*)/2, + ‖C'‖·radius; C' = X'ᵀX'H", region,
            ),
            closed_form("hat_rho_1", 0.0, "∇²₁ℓ does not depend on w", region, exact=True),
            closed_form("hat_rho_2", 2 * spectral(C), "2‖XᵀXH‖", region, exact=True),
        )  # fmt: skip

    return ClosedForms(everywhere, on)

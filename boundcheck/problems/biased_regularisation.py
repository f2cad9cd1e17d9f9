"""Ridge regression biased towards λ (BR), section 4.1 and appendix C.1 of the paper.

E(w) = ½‖X'w − y'‖²,   ℓ(w, λ) = ½‖Xw − y‖² + (β/2)‖w − λ‖²,   μ, L = β + λ_min, λ_max(XᵀX).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region, closed_form
from boundcheck.numerics.bilevel.formulas import DataMatrix
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems.parts.norm_bounds import farthest, solved, spectral
from boundcheck.problems.parts.synthetic_data import DataSplit, drawn, linear_data, ridge_for, uniform
from boundcheck.problems.parts.tuned_step import Tuned, problem_fields, step_constants, tuned

NAME = "br"
TITLE = "biased regularisation: ridge regression towards λ"
# y = X(w + 1) + noise, with normal X and w
generate = partial(linear_data, weights=lambda draw, features: draw.normal(features) + 1)


class Ready(NamedTuple):
    """The vector that depends on λ."""

    target: Tensor  # Xᵀy + βλ


def make(
    *, seed: int = 0, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu", size: int = 50,
    features: int = 100, noise: float = 0.1, low: float = -5.0, high: float = 5.0, ridge: float = 1.0,
    kappa: float | None = None, dynamics: str = "heavy-ball", differentiate_step: bool = False,
) -> Problem:  # fmt: skip
    """Ridge regression biased towards λ: the paper's BR.

    d = n = `features`. μ and L do not depend on λ.

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
        The least value of λ; -5 by default.
    high : float
        The largest value of λ; 5 by default.
    ridge : float
        The weight β of the penalty, positive; 1 by default.
    kappa : float, optional
        The condition number L/μ, above 1; it determines β, in place of `ridge`.
    dynamics : str
        "gradient-descent", "heavy-ball" or "nesterov", each with its best steps for μ and L; "heavy-ball" by
        default.
    differentiate_step : bool
        Whether to differentiate through the step; False by default. This has no effect here, because μ and L do not
        depend on λ.

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
    >>> bc.problems.biased_regularisation(size=20, features=5)
    Problem(br, d=5, n=5, heavy-ball, float64 on cpu)
    """
    data = generate(seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise)
    eigenvalues = torch.linalg.eigvalsh(data.X.T @ data.X)
    least, most = (eigenvalues[0] if size >= features else torch.zeros_like(eigenvalues[0])), eigenvalues[-1]
    if kappa is not None:
        ridge = ridge_for(least, most, kappa)
    steps = tuned(dynamics, least + ridge, most + ridge)
    Xy = data.X.T @ data.y
    sampler = uniform(low, high, features)

    def prepare(lam: Tensor) -> Ready:
        return Ready(Xy + ridge * lam)

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        lam = (ready.target - Xy) / ridge
        return ((data.X @ w - data.y) ** 2).sum() / 2 + ridge * ((w - lam) ** 2).sum() / 2

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - steps.alpha * (data.X.T @ (data.X @ w) + ridge * w - ready.target)

    def d1phi_T_at(w: Tensor, ready: Ready) -> DataMatrix:
        """∂₁Φ = (1 − αβ)I − αXᵀX."""
        return DataMatrix(data.X, -steps.alpha, 1 - steps.alpha * ridge)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return ((data.X_val @ w - data.y_val) ** 2).sum() / 2

    H = data.X.T @ data.X + ridge * torch.eye(features, dtype=dtype, device=device)
    return Problem(
        name=NAME, w0=data.X.new_zeros(features), lam=drawn(sampler, seed, data.X), phi_at=phi_at, outer_at=outer_at,
        inner_at=inner_at, prepare=prepare, d1phi_T_at=d1phi_T_at, affine=True,
        solution=lambda ready: torch.linalg.solve(H, ready.target), sampler=sampler, seed=seed,
        known=closed_forms(data, H, ridge, steps), **problem_fields(dynamics, lambda ready: steps),
    )  # fmt: skip


def closed_forms(data: DataSplit, H: Tensor, ridge: float, steps: Tuned) -> ClosedForms:
    """Return the constants: ∇²₁ℓ = H = XᵀX + βI and ∇²₂₁ℓ = −βI are constant, so ν₁ = ν₂ = 0 and L_Φ = αβ.

    ∇₁E = X'ᵀ(X'w − y') is affine, with η₁ = ‖X'ᵀX'‖; `farthest` gives its supremum over a ball. E does not depend on λ.
    """
    G, Xy, Xy_val = data.X_val.T @ data.X_val, data.X.T @ data.y, data.X_val.T @ data.y_val

    def everywhere(lam: Tensor) -> tuple[Constant, ...]:
        target = Xy + ridge * lam
        w = torch.linalg.solve(H, target)
        rounding = torch.linalg.matrix_norm(H) * w.norm() + target.norm()
        D = solved(w, H @ w - target, rounding, steps.mu).reach
        how = "‖w‖ + ‖∇₁ℓ(w)‖/μ at the computed w = (XᵀX + βI)⁻¹(Xᵀy + βλ)"
        return *step_constants(steps, None), closed_form("D", D, how)

    def on(lam: Tensor, region: Region) -> tuple[Constant, ...]:
        L_E = farthest(G, G @ region.point - Xy_val, region.radius)
        zeros = ("nu_1", "nu_2", "hat_rho_1", "hat_rho_2")
        return (
            closed_form("L_E", L_E, "sup ‖X'ᵀ(X'w − y')‖ over the ball, by duality", region),
            closed_form("L_Phi", steps.alpha * ridge, "αβ, as ∂₂Φ = αβI", region, exact=True),
            *(closed_form(name, 0.0, "Φ is affine in (w, λ)", region, exact=True) for name in zeros),
            closed_form("eta_1", spectral(G), "‖X'‖²", region, exact=True),
            closed_form("eta_2", 0.0, "E does not depend on λ", region, exact=True),
        )

    return ClosedForms(everywhere, on)

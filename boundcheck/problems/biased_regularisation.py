"""Ridge regression biased towards λ (BR), section 4.1 and appendix C.1 of the paper.

E(w) = ½‖X'w − y'‖²,   ℓ(w, λ) = ½‖Xw − y‖² + (β/2)‖w − λ‖²,   μ, L = β + λ_min, λ_max(XᵀX).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.dynamics import by_name, optimal_steps
from boundcheck.problem import Curvature, Problem
from boundcheck.problems._synthetic import Draw, Split, ridge_for, split, uniform

NAME = "br"
TITLE = "biased regularisation: ridge regression towards λ"


class Ready(NamedTuple):
    """What the functions need of λ: itself, shifted by the data."""

    target: Tensor  # Xᵀy + βλ


def generate(
    *,
    seed: int,
    dtype: torch.dtype,
    device: torch.device | str,
    size: int = 50,
    features: int = 100,
    noise: float = 0.1,
) -> Split:
    """y = X(w + 1) + noise, with normal X and w."""
    draw = Draw.seeded(seed, dtype, device)
    w_true = draw.normal(features)
    return split(draw, size, features, lambda X: X @ (w_true + 1) + noise * draw.normal(size))


def make(
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    size: int = 50,
    features: int = 100,
    noise: float = 0.1,
    low: float = -5.0,
    high: float = 5.0,
    ridge: float = 1.0,
    kappa: float | None = None,
    dynamics: str = "heavy-ball",
    differentiate_step: bool = False,
) -> Problem:
    """The paper's BR with β = `ridge`; with `kappa`, β is chosen so that L/μ = kappa, for every λ.

    μ and L do not depend on λ, so `differentiate_step` changes nothing here.
    """
    data = generate(seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise)
    eigenvalues = torch.linalg.eigvalsh(data.X.T @ data.X)
    least, most = (eigenvalues[0] if size >= features else torch.zeros_like(eigenvalues[0])), eigenvalues[-1]
    if kappa is not None:
        ridge = ridge_for(least, most, kappa)
    found = Curvature(least + ridge, most + ridge)
    step = optimal_steps(dynamics, found.mu, found.L)
    Xy = data.X.T @ data.y
    sampler = uniform(low, high, features)

    def prepare(lam: Tensor) -> Ready:
        return Ready(Xy + ridge * lam)

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        lam = (ready.target - Xy) / ridge
        return ((data.X @ w - data.y) ** 2).sum() / 2 + ridge * ((w - lam) ** 2).sum() / 2

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - step.alpha * (data.X.T @ (data.X @ w) + ridge * w - ready.target)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return ((data.X_val @ w - data.y_val) ** 2).sum() / 2

    H = data.X.T @ data.X + ridge * torch.eye(features, dtype=dtype, device=device)
    return Problem(
        name=NAME,
        w0=torch.zeros(features, dtype=dtype, device=device),
        lam=sampler(torch.Generator().manual_seed(seed)).to(dtype=dtype, device=device),
        phi_at=phi_at,
        outer_at=outer_at,
        inner_at=inner_at,
        prepare=prepare,
        dynamics=by_name(dynamics, lambda ready: (step.omega, step.beta)),
        symmetric=True,
        affine=True,
        curvature=lambda ready: found,
        contraction=lambda ready: found.contraction(step.alpha),
        solution=lambda ready: torch.linalg.solve(H, ready.target),
        sampler=sampler,
        seed=seed,
    )

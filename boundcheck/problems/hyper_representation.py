"""Ridge regression on a learnt linear representation (HR), section 4.1 and appendix C.1 of the paper.

E(w, H) = ½‖X'Hw − y'‖²,   ℓ(w, H) = ½‖XHw − y‖² + (β/2)‖w‖²,   λ = H ∈ R^{p×d},   μ, L = β + λ_min, λ_max(HᵀXᵀXH).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.problem import Problem
from boundcheck.problems._gradient_step import Tuned, known, tuned
from boundcheck.problems._synthetic import Draw, drawn, linear_data, ridge_for, uniform

NAME = "hr"
TITLE = "hyper-representation: ridge regression on learnt features"


class Ready(NamedTuple):
    """What depends on H only: the represented data and the steps."""

    A: Tensor  # XH
    A_val: Tensor  # X'H
    steps: Tuned


def weights(draw: Draw, features: int, represented: int = 200) -> Tensor:
    """Hw, with normal H and w."""
    w_true, H_true = draw.normal(represented), draw.normal(features, represented)
    return H_true @ w_true


generate = partial(linear_data, weights=weights)  # y = XHw + noise, with normal X


def make(
    *, seed: int = 0, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu", size: int = 50,
    features: int = 100, represented: int = 200, noise: float = 0.1, low: float = -1.0, high: float = 1.0,
    ridge: float = 10.0, kappa: float | None = None, dynamics: str = "heavy-ball", differentiate_step: bool = False,
) -> Problem:  # fmt: skip
    """The paper's HR with β = `ridge`; with `kappa`, β is chosen so that L/μ = kappa at `problem.lam`."""
    data = generate(
        seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise,
        weights=partial(weights, represented=represented),
    )  # fmt: skip
    sampler = uniform(low, high, features * represented)
    lam = drawn(sampler, seed, data.X)

    def spectrum(A: Tensor) -> tuple[Tensor, Tensor]:
        """λ_min and λ_max of AᵀA, from the smaller of the two Gram matrices."""
        wide = represented > size
        eigenvalues = torch.linalg.eigvalsh(A @ A.mT if wide else A.mT @ A)
        return torch.zeros_like(eigenvalues[0]) if wide else eigenvalues[0], eigenvalues[-1]

    if kappa is not None:
        ridge = ridge_for(*spectrum(data.X @ lam.view(features, represented)), kappa)

    def prepare(lam: Tensor) -> Ready:
        H = lam.view(features, represented)
        A = data.X @ H
        least, most = spectrum(A)
        return Ready(A, data.X_val @ H, tuned(dynamics, least + ridge, most + ridge, differentiate_step))

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        return ((ready.A @ w - data.y) ** 2).sum() / 2 + ridge * (w * w).sum() / 2

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - ready.steps.alpha * (ready.A.mT @ (ready.A @ w - data.y) + ridge * w)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return ((ready.A_val @ w - data.y_val) ** 2).sum() / 2

    def solution(ready: Ready) -> Tensor:
        """(AᵀA + βI)⁻¹Aᵀy = Aᵀ(AAᵀ + βI)⁻¹y, the smaller of the two systems."""
        A, eye = ready.A, torch.eye(min(size, represented), dtype=dtype, device=device)
        if represented > size:
            w: Tensor = A.mT @ torch.linalg.solve(A @ A.mT + ridge * eye, data.y)
        else:
            w = torch.linalg.solve(A.mT @ A + ridge * eye, A.mT @ data.y)
        return w

    return Problem(
        name=NAME, w0=lam.new_zeros(represented), lam=lam, phi_at=phi_at, outer_at=outer_at, inner_at=inner_at,
        prepare=prepare, affine=True, solution=solution, sampler=sampler, seed=seed, **known(dynamics),
    )  # fmt: skip

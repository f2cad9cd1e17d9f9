"""Kernel ridge regression with one width a feature (KRR), section 4.1 and appendix C.1 of the paper.

E(w, λ) = ½‖y' − K'(γ)w‖²,   ℓ(w, λ) = ½wᵀ(K(γ) + βI)w − wᵀy,   λ = (β, γ),
K(γ)_ij = exp(−(x_i − x_j)ᵀdiag(γ)(x_i − x_j)),   μ, L = β + λ_min, λ_max(K).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from boundcheck.problem import POSITIVE, Problem
from boundcheck.problems._gradient_step import Tuned, known, tuned
from boundcheck.problems._synthetic import Split, drawn, linear_data, ridge_for, uniform

NAME = "krr"
TITLE = "kernel ridge regression, one width a feature"
generate = linear_data  # y = Xw + noise, with normal X and w


class Ready(NamedTuple):
    """What depends on λ only: the kernel matrices and the steps."""

    H: Tensor  # K + βI
    K_val: Tensor
    steps: Tuned


def regression(
    name: str, data: Split, lam: Tensor, dynamics: str, differentiate_step: bool,
    positive: Callable[[Tensor], Tensor] = lambda lam: lam, **rest: Any,
) -> Problem:  # fmt: skip
    """Kernel ridge regression on `data` with (β, γ) = positive(λ); `rest` are fields of `Problem`."""
    Q, Q_val = squared_differences(data.X, data.X), squared_differences(data.X_val, data.X)
    eye = torch.eye(len(data.y), dtype=data.y.dtype, device=data.y.device)

    def prepare(lam: Tensor) -> Ready:
        beta, gamma = positive(lam[0]), positive(lam[1:])
        H = kernel(Q, gamma) + beta * eye
        eigenvalues = torch.linalg.eigvalsh(H)
        steps = tuned(dynamics, eigenvalues[0], eigenvalues[-1], differentiate_step)
        return Ready(H, kernel(Q_val, gamma), steps)

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        return w @ (ready.H @ w) / 2 - w @ data.y

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - ready.steps.alpha * (ready.H @ w - data.y)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return ((data.y_val - ready.K_val @ w) ** 2).sum() / 2

    return Problem(
        name=name, w0=torch.zeros_like(data.y), lam=lam, phi_at=phi_at, outer_at=outer_at, inner_at=inner_at,
        prepare=prepare, affine=True, solution=lambda ready: torch.linalg.solve(ready.H, data.y),
        **known(dynamics), **rest,
    )  # fmt: skip


def make(
    *, seed: int = 0, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu", size: int = 50,
    features: int = 100, noise: float = 0.1, low: float = 0.0005, high: float = 0.005, kappa: float | None = None,
    dynamics: str = "heavy-ball", differentiate_step: bool = False,
) -> Problem:  # fmt: skip
    """The paper's KRR; with `kappa`, `problem.lam` is chosen so that L/μ = kappa there: β, if need be γ."""
    data = generate(seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise)
    sampler = uniform(low, high, 1 + features)
    lam = drawn(sampler, seed, data.X)
    if kappa is not None:
        lam = _conditioned(data.X, lam, kappa)
    return regression(NAME, data, lam, dynamics, differentiate_step, domain=POSITIVE, sampler=sampler, seed=seed)


def squared_differences(A: Tensor, B: Tensor) -> Tensor:
    """Q with Q_kij = (a_ik − b_jk)², a matrix for each feature k."""
    return ((A.T[:, :, None] - B.T[:, None, :]) ** 2).contiguous()


def kernel(Q: Tensor, gamma: Tensor) -> Tensor:
    """K(γ)_ij = exp(−Σ_k γ_k Q_kij)."""
    return torch.exp(-(gamma[None] @ Q.flatten(1)).view(Q.shape[1:]))


def _conditioned(X: Tensor, lam: Tensor, kappa: float) -> Tensor:
    """λ with the β for which L/μ = κ; γ is halved until the kernel matrix alone is conditioned worse than that."""
    Q = squared_differences(X, X)
    for _ in range(60):
        eigenvalues = torch.linalg.eigvalsh(kernel(Q, lam[1:]))
        if eigenvalues[-1] > 2 * kappa * eigenvalues[0]:
            break
        lam = lam / 2
    return torch.cat((lam.new_tensor([ridge_for(eigenvalues[0], eigenvalues[-1], kappa)]), lam[1:]))

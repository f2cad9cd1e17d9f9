"""Kernel ridge regression with one width a feature (KRR), section 4.1 and appendix C.1 of the paper.

E(w, λ) = ½‖y' − K'(γ)w‖²,   ℓ(w, λ) = ½wᵀ(K(γ) + βI)w − wᵀy,   λ = (β, γ),
K(γ)_ij = exp(−(x_i − x_j)ᵀdiag(γ)(x_i − x_j)),   μ, L = β + λ_min, λ_max(K).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.dynamics import by_name, optimal_steps
from boundcheck.problem import POSITIVE, Curvature, Problem
from boundcheck.problems._synthetic import Draw, Split, measured, ridge_for, split, uniform

NAME = "krr"
TITLE = "kernel ridge regression, one width a feature"


class Ready(NamedTuple):
    """What depends on λ only: the kernel matrices and the steps."""

    H: Tensor  # K + βI
    K_val: Tensor
    mu: Tensor
    L: Tensor
    alpha: Tensor
    omega: Tensor
    beta: Tensor  # momentum, not the ridge


def generate(
    *,
    seed: int,
    dtype: torch.dtype,
    device: torch.device | str,
    size: int = 50,
    features: int = 100,
    noise: float = 0.1,
) -> Split:
    """y = Xw + noise, with normal X and w."""
    draw = Draw.seeded(seed, dtype, device)
    w_true = draw.normal(features)
    return split(draw, size, features, lambda X: X @ w_true + noise * draw.normal(size))


def make(
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    size: int = 50,
    features: int = 100,
    noise: float = 0.1,
    low: float = 0.0005,
    high: float = 0.005,
    kappa: float | None = None,
    dynamics: str = "heavy-ball",
    differentiate_step: bool = False,
) -> Problem:
    """The paper's KRR; with `kappa`, `problem.lam` is chosen so that L/μ = kappa there: β, if need be γ."""
    data = generate(seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise)
    Q, Q_val = squared_differences(data.X, data.X), squared_differences(data.X_val, data.X)
    sampler = uniform(low, high, 1 + features)
    lam = sampler(torch.Generator().manual_seed(seed)).to(dtype=dtype, device=device)
    if kappa is not None:
        lam = _conditioned(Q, lam, kappa)
    ridge = torch.eye(size, dtype=dtype, device=device)

    def prepare(lam: Tensor) -> Ready:
        H = torch.exp(-(Q @ lam[1:])) + lam[0] * ridge
        eigenvalues = torch.linalg.eigvalsh(H)
        found = measured(eigenvalues[0], eigenvalues[-1], differentiate_step)
        step = optimal_steps(dynamics, found.mu, found.L)
        K_val = torch.exp(-(Q_val @ lam[1:]))
        return Ready(H, K_val, found.mu, found.L, step.alpha, step.omega, step.beta)

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        return w @ (ready.H @ w) / 2 - w @ data.y

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - ready.alpha * (ready.H @ w - data.y)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return ((data.y_val - ready.K_val @ w) ** 2).sum() / 2

    return Problem(
        name=NAME,
        w0=torch.zeros(size, dtype=dtype, device=device),
        lam=lam,
        phi_at=phi_at,
        outer_at=outer_at,
        inner_at=inner_at,
        prepare=prepare,
        dynamics=by_name(dynamics, lambda ready: (ready.omega, ready.beta)),
        symmetric=True,
        affine=True,
        curvature=lambda ready: Curvature(ready.mu, ready.L),
        contraction=lambda ready: Curvature(ready.mu, ready.L).contraction(ready.alpha),
        solution=lambda ready: torch.linalg.solve(ready.H, data.y),
        domain=POSITIVE,
        sampler=sampler,
        seed=seed,
    )


def squared_differences(A: Tensor, B: Tensor) -> Tensor:
    """Q with Q_ijk = (a_ik − b_jk)², so that a kernel matrix is exp(−Qγ)."""
    return (A[:, None, :] - B[None, :, :]) ** 2


def _conditioned(Q: Tensor, lam: Tensor, kappa: float) -> Tensor:
    """λ with the β for which L/μ = κ; γ is halved until the kernel matrix alone is conditioned worse than that."""
    for _ in range(60):
        eigenvalues = torch.linalg.eigvalsh(torch.exp(-(Q @ lam[1:])))
        if eigenvalues[-1] > 2 * kappa * eigenvalues[0]:
            break
        lam = lam / 2
    return torch.cat((lam.new_tensor([ridge_for(eigenvalues[0], eigenvalues[-1], kappa)]), lam[1:]))

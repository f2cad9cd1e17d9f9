"""Logistic regression with one ℓ₂ penalty a weight (LR), section 4.1 and appendix C.1 of the paper.

E(w) = Σ_val ψ(y xᵀw),   ℓ(w, λ) = Σ_train ψ(y xᵀw) + ½ wᵀdiag(λ)w,   ψ(u) = log(1 + e⁻ᵘ),
μ = min λ,   L = λmax(¼XᵀX + diag λ)   (ψ'' ≤ ¼).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn.functional import logsigmoid

from boundcheck.dynamics import by_name, optimal_steps
from boundcheck.errors import InputError
from boundcheck.problem import POSITIVE, Curvature, Problem
from boundcheck.problems._synthetic import Draw, Split, measured, split, uniform

NAME = "lr"
TITLE = "logistic regression, one ℓ₂ penalty a weight"


class Ready(NamedTuple):
    """What depends on λ only."""

    lam: Tensor
    mu: Tensor
    L: Tensor
    alpha: Tensor
    omega: Tensor
    beta: Tensor


def generate(
    *,
    seed: int,
    dtype: torch.dtype,
    device: torch.device | str,
    size: int = 50,
    features: int = 100,
    noise: float = 0.1,
) -> Split:
    """y = sign(Xw + noise), with normal X and w."""
    draw = Draw.seeded(seed, dtype, device)
    w_true = draw.normal(features)
    return split(draw, size, features, lambda X: torch.sign(X @ w_true + noise * draw.normal(size)))


def make(
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    size: int = 50,
    features: int = 100,
    noise: float = 0.1,
    low: float = 0.01,
    high: float = 10.0,
    kappa: float | None = None,
    dynamics: str = "gradient-descent",
    differentiate_step: bool = False,
) -> Problem:
    """The paper's LR; with `kappa`, the data are scaled so that L/μ = kappa at `problem.lam`."""
    data = generate(seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise)
    if kappa is not None:
        low = max(
            low, high / max(kappa, 1) ** 0.5
        )  # else min λ alone would make the problem worse conditioned than asked
    sampler = uniform(low, high, features)
    lam = sampler(torch.Generator().manual_seed(seed)).to(dtype=dtype, device=device)
    scale = 1.0 if kappa is None else _scale(data.X, lam, kappa)
    U, U_val = (
        -scale * data.y[:, None] * data.X,
        -scale * data.y_val[:, None] * data.X_val,
    )  # ψ(y xᵀw) = log(1 + exp(uᵀw))
    quarter = U.T @ U / 4

    def prepare(lam: Tensor) -> Ready:
        found = measured(lam.min(), torch.linalg.eigvalsh(quarter + torch.diag(lam))[-1], differentiate_step)
        step = optimal_steps(dynamics, found.mu, found.L)
        return Ready(lam, found.mu, found.L, step.alpha, step.omega, step.beta)

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        return -logsigmoid(-(U @ w)).sum() + (ready.lam * w * w).sum() / 2

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - ready.alpha * (U.T @ torch.sigmoid(U @ w) + ready.lam * w)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return -logsigmoid(-(U_val @ w)).sum()

    return Problem(
        name=NAME,
        w0=torch.zeros(features, dtype=dtype, device=device),
        lam=lam,
        phi_at=phi_at,
        outer_at=outer_at,
        inner_at=inner_at,
        prepare=prepare,
        dynamics=by_name(dynamics, lambda ready: (ready.omega, ready.beta)),
        symmetric=True,
        curvature=lambda ready: Curvature(ready.mu, ready.L),
        contraction=lambda ready: Curvature(ready.mu, ready.L).contraction(ready.alpha),
        domain=POSITIVE,
        sampler=sampler,
        seed=seed,
    )


def _scale(X: Tensor, lam: Tensor, kappa: float) -> float:
    """c with λmax(¼c²XᵀX + diag λ) = κ min λ: the left side grows with c."""
    if not 1 < kappa < float("inf"):
        raise InputError(f"kappa = {kappa} is no condition number to aim at; give a finite number above 1")
    G, ridge = X.T @ X / 4, torch.diag(lam)
    target = kappa * float(lam.min())

    def excess(c: float) -> float:
        return float(torch.linalg.eigvalsh(c * c * G + ridge)[-1]) - target

    return float(brentq(excess, 0.0, 2 * (target / float(torch.linalg.eigvalsh(G)[-1])) ** 0.5, xtol=1e-15))

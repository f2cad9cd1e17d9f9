"""Logistic regression with one ℓ₂ penalty a weight (LR), section 4.1 and appendix C.1 of the paper.

E(w) = Σ_val ψ(y xᵀw),   ℓ(w, λ) = Σ_train ψ(y xᵀw) + ½ wᵀdiag(λ)w,   ψ(u) = log(1 + e⁻ᵘ),
μ = min λ,   L = λmax(¼XᵀX + diag λ)   (ψ'' ≤ ¼).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn.functional import logsigmoid

from boundcheck.errors import InputError
from boundcheck.problem import POSITIVE, Problem
from boundcheck.problems._gradient_step import Tuned, known, tuned
from boundcheck.problems._synthetic import drawn, linear_data, uniform

NAME = "lr"
TITLE = "logistic regression, one ℓ₂ penalty a weight"
generate = partial(linear_data, label=torch.sign)  # y = sign(Xw + noise), with normal X and w


class Ready(NamedTuple):
    """What depends on λ only."""

    lam: Tensor
    steps: Tuned


def make(
    *, seed: int = 0, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu", size: int = 50,
    features: int = 100, noise: float = 0.1, low: float = 0.01, high: float = 10.0, kappa: float | None = None,
    dynamics: str = "gradient-descent", differentiate_step: bool = False,
) -> Problem:  # fmt: skip
    """The paper's LR; with `kappa`, the data are scaled so that L/μ = kappa at `problem.lam`."""
    data = generate(seed=seed, dtype=dtype, device=device, size=size, features=features, noise=noise)
    if kappa is not None:
        # else min λ alone would make the problem worse conditioned than asked
        low = max(low, high / max(kappa, 1) ** 0.5)
    sampler = uniform(low, high, features)
    lam = drawn(sampler, seed, data.X)
    scale = 1.0 if kappa is None else _scale(data.X, lam, kappa)
    # ψ(y xᵀw) = log(1 + exp(uᵀw))
    U, U_val = -scale * data.y[:, None] * data.X, -scale * data.y_val[:, None] * data.X_val
    quarter = U.T @ U / 4

    def prepare(lam: Tensor) -> Ready:
        mu, L = lam.min(), torch.linalg.eigvalsh(quarter + torch.diag(lam))[-1]
        return Ready(lam, tuned(dynamics, mu, L, differentiate_step))

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        return -logsigmoid(-(U @ w)).sum() + (ready.lam * w * w).sum() / 2

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return w - ready.steps.alpha * (U.T @ torch.sigmoid(U @ w) + ready.lam * w)

    def d1phi_T_at(w: Tensor, ready: Ready) -> Callable[[Tensor], Tensor]:
        """∂₁Φ = diag(1 − αλ) − αUᵀdiag(σ')U."""
        s, alpha = torch.sigmoid(w @ U.T), ready.steps.alpha[..., None]
        kept, weight = 1 - alpha * ready.lam, alpha * s * (s - 1)
        return lambda v: (((v @ U.T) * weight) @ U).addcmul_(kept, v)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return -logsigmoid(-(U_val @ w)).sum()

    return Problem(
        name=NAME, w0=lam.new_zeros(features), lam=lam, phi_at=phi_at, outer_at=outer_at, inner_at=inner_at,
        prepare=prepare, d1phi_T_at=d1phi_T_at, domain=POSITIVE, sampler=sampler, seed=seed, **known(dynamics),
    )  # fmt: skip


def _scale(X: Tensor, lam: Tensor, kappa: float) -> float:
    """c with λmax(¼c²XᵀX + diag λ) = κ min λ: the left side grows with c."""
    if not 1 < kappa < float("inf"):
        raise InputError(f"kappa = {kappa} is no condition number to aim at; give a finite number above 1")
    G, ridge = X.T @ X / 4, torch.diag(lam)
    target = kappa * float(lam.min())

    def excess(c: float) -> float:
        return float(torch.linalg.eigvalsh(c * c * G + ridge)[-1]) - target

    return float(brentq(excess, 0.0, 2 * (target / float(torch.linalg.eigvalsh(G)[-1])) ** 0.5, xtol=1e-15))

"""Problems of which nothing is said but their functions."""

from __future__ import annotations

import torch
from pieces import normal, zeros

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import Problem


def quadratic(alpha: float | None = None, d: int = 5, scale: float = 1.0) -> Problem:
    """ℓ = ½wᵀHw − λᵀw with the spectrum 1 … 4 of H, E = ½‖w − 1‖²."""
    Q = torch.linalg.qr(normal(d, d)).Q
    H = scale * (Q * torch.linspace(1, 4, d, dtype=torch.float64)) @ Q.T

    def inner(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return w @ H @ w / 2 - lam @ w

    return bc.Problem.from_loss(
        inner, lambda w, lam: ((w - 1) ** 2).sum() / 2, torch.zeros(d).double(), torch.ones(d).double(), alpha
    )


def tanh(d: int = 1) -> Problem:
    """Φ = 0.9 tanh(w) + λ, E = Σ cos w: nothing is constant but ∂₂Φ and ∇₂E, and q = 0.9."""
    return bc.Problem.from_map(
        lambda w, lam: 0.9 * torch.tanh(w) + lam, lambda w, lam: torch.cos(w).sum(), zeros(d), zeros(d) + 0.3
    )

"""Suprema that several problems need for their constants in closed form."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


def spectral(A: Tensor) -> Tensor:
    """‖A‖₂."""
    return torch.linalg.matrix_norm(A, ord=2)


def top(S: Tensor) -> Tensor:
    """λmax of a symmetric S."""
    return torch.linalg.eigvalsh(S)[-1]


def largest(G: Tensor) -> Tensor:
    """λmax of a positive semidefinite G, or of each of a batch; never below 0 by rounding."""
    found: Tensor = torch.linalg.eigvalsh(G)[..., -1].clamp(min=0)
    return found


def spectral_norm(A: Tensor) -> Tensor:
    """‖A‖₂ of a matrix of any shape, or of each of a batch, from the smaller of its Gram matrices."""
    return largest(A.mT @ A if A.shape[-1] < A.shape[-2] else A @ A.mT).sqrt()


def tensor_norm(M: Tensor) -> Tensor:
    """At least sup ‖[M_1 δ, …, M_n δ]‖ over unit δ, for symmetric M_j: the lesser of two flattenings.

    Rows against the rest: ‖[M_j δ]_j‖₂² ≤ ‖[M_j δ]_j‖_F² = δᵀ(Σ M_j²)δ.
    Slices against the rest: ‖Σ b_j M_j‖₂² ≤ ‖Σ b_j M_j‖_F² = bᵀ Gram b, with Gram_jk = ⟨M_j, M_k⟩.
    """
    rows, slices = M.flatten(0, 1), M.flatten(1)
    return torch.minimum(top(rows.T @ rows), top(slices @ slices.T)).clamp_min(0).sqrt()


def farthest(A: Tensor, b: Tensor, radius: float) -> Tensor:
    """sup ‖As + b‖ over ‖s‖ ≤ radius, from above and to three digits.

    By weak duality, for every τ > ‖A‖²:  ‖As + b‖² ≤ max_s ‖As + b‖² + τ(radius² − ‖s‖²) = τ radius² + Σ τb_i²/(τ−σ_i²),
    with b in the left singular vectors of A (σ_i = 0 beside them). The least over τ is the supremum (S-lemma); every τ
    is safe, so a grid of τ = (1+x)‖A‖² will do.
    """
    U, sigma, _ = torch.linalg.svd(A, full_matrices=False)
    triangle = b.norm() + sigma[0] * radius
    along = (U.T @ b) ** 2
    beside = (b @ b - along.sum()).clamp_min(0)
    least = max(1e-9, 10 * torch.finfo(A.dtype).eps)
    x = torch.logspace(math.log10(least), 3, 600, dtype=A.dtype, device=A.device)[:, None]
    apart = 1 - (sigma / sigma[0].clamp_min(torch.finfo(A.dtype).tiny)) ** 2
    squared = (1 + x[:, 0]) * (sigma[0] * radius) ** 2 + beside + ((1 + x) / (x + apart)) @ along
    return torch.minimum(squared.min().sqrt(), triangle)


class Solved(NamedTuple):
    """A computed w and how far w(λ) may be from it."""

    w: Tensor
    error: Tensor

    @property
    def reach(self) -> Tensor:
        """At least ‖w(λ)‖."""
        return self.w.norm() + self.error


def solved(w: Tensor, gradient: Tensor, rounding: Tensor, mu: Tensor) -> Solved:
    """‖w − w(λ)‖ ≤ ‖∇₁ℓ(w)‖/μ by strong convexity, with `rounding`·ε for the error in ∇₁ℓ itself."""
    return Solved(w, (gradient.norm() + torch.finfo(w.dtype).eps * rounding) / mu)

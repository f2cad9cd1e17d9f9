"""Norms and suprema for the closed-form constants of several problems."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


def spectral(A: Tensor) -> Tensor:
    """Return ‖A‖₂."""
    norm: Tensor = torch.linalg.matrix_norm(A, ord=2)
    return norm


def top(S: Tensor) -> Tensor:
    """Return λmax of a symmetric S."""
    largest: Tensor = torch.linalg.eigvalsh(S)[-1]
    return largest


def largest(G: Tensor) -> Tensor:
    """Return λmax of a positive semidefinite G, or of each of a batch; at least 0 in spite of rounding."""
    eigenvalue: Tensor = torch.linalg.eigvalsh(G)[..., -1].clamp(min=0)
    return eigenvalue


def spectral_norm(A: Tensor) -> Tensor:
    """Return ‖A‖₂ of a matrix of any shape, or of each of a batch, from the smaller Gram matrix."""
    return largest(A.mT @ A if A.shape[-1] < A.shape[-2] else A @ A.mT).sqrt()


def tensor_norm(M: Tensor) -> Tensor:
    """Return an upper bound of sup ‖[M_1 δ, …, M_n δ]‖ over unit δ for symmetric M_j: the lesser of two flattenings.

    Rows against the rest: ‖[M_j δ]_j‖₂² ≤ ‖[M_j δ]_j‖_F² = δᵀ(Σ M_j²)δ.
    Slices against the rest: ‖Σ b_j M_j‖₂² ≤ ‖Σ b_j M_j‖_F² = bᵀ Gram b, with Gram_jk = ⟨M_j, M_k⟩.
    """
    rows, slices = M.flatten(0, 1), M.flatten(1)
    return torch.minimum(top(rows.T @ rows), top(slices @ slices.T)).clamp_min(0).sqrt()


def farthest(A: Tensor, b: Tensor, radius: float | Tensor) -> Tensor:
    """Return an upper bound of sup ‖As + b‖ over ‖s‖ ≤ radius that is right to three digits.

    By weak duality, for τ > ‖A‖²:  ‖As + b‖² ≤ max_s ‖As + b‖² + τ(radius² − ‖s‖²) = τ radius² + ‖b‖² + gᵀ(τ − AᵀA)⁻¹g,
    g = Aᵀb. The least value over τ is the supremum (S-lemma). Every τ is safe, so a grid of τ = (1+x)‖A‖² suffices.
    """
    eps, tiny = torch.finfo(A.dtype).eps, torch.finfo(A.dtype).tiny
    eigenvalues, V = torch.linalg.eigh(A.T @ A)
    most = eigenvalues[-1].clamp_min(tiny)
    g = (V.T @ (A.T @ b)) ** 2 / most
    x = torch.logspace(math.log10(max(1e-9, 10 * eps)), 3, 600, dtype=A.dtype, device=A.device)
    squared = (1 + x) * most * radius**2 + b @ b + (1 / (x[:, None] + (1 - eigenvalues / most))) @ g
    return torch.minimum(squared.min().sqrt(), b.norm() + most.sqrt() * radius)


def affine_norm(M: Tensor, b: Tensor, radius: float | Tensor, norm: Tensor | None = None) -> Tensor:
    """Return an upper bound of sup ‖[M_1 s + b_1, …, M_n s + b_n]‖ over ‖s‖ ≤ radius; M_j symmetric, b_j rows of b.

    It is the least of three bounds: ‖b‖ + radius·`norm`, where `norm` is `tensor_norm` of M by default; the supremum of
    the Frobenius norm; and the square root of (1+x²)·λmax(radius² Gram(M) + Gram(b)/x²) for any x > 0. By
    Cauchy-Schwarz, radius ‖Σ z_j M_j‖_F + ‖Σ z_j b_j‖ is at most this root for every unit z, and the two norms need not
    be large for the same z.
    """
    slices = M.flatten(1)
    of_M, of_b = radius**2 * (slices @ slices.T), b @ b.T

    def joints(log_x: Tensor) -> Tensor:
        x = 100 ** log_x[:, None, None]  # x²
        largest: Tensor = torch.linalg.eigvalsh((1 + x) * (of_M + of_b / x))[:, -1]
        return largest

    coarse = torch.linspace(-1.5, 1.5, 7, dtype=M.dtype, device=M.device)
    first = joints(coarse)
    finer = coarse[first.argmin()] + torch.linspace(-0.4, 0.4, 5, dtype=M.dtype, device=M.device)
    joint = torch.cat((first, joints(finer))).min().clamp_min(0).sqrt()
    triangle = spectral(b) + (tensor_norm(M) if norm is None else norm) * radius
    return torch.stack((triangle, farthest(M.flatten(0, 1), b.flatten(), radius), joint)).min()


class Solved(NamedTuple):
    """A computed w, and an upper bound of its distance to w(λ)."""

    w: Tensor
    error: Tensor

    @property
    def reach(self) -> Tensor:
        """An upper bound of ‖w(λ)‖."""
        reach: Tensor = self.w.norm() + self.error
        return reach


def solved(w: Tensor, gradient: Tensor, rounding: Tensor, mu: Tensor) -> Solved:
    """Bound ‖w − w(λ)‖ by ‖∇₁ℓ(w)‖/μ (strong convexity), with `rounding`·ε for the error of ∇₁ℓ itself."""
    return Solved(w, (gradient.norm() + torch.finfo(w.dtype).eps * rounding) / mu)

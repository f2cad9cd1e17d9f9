"""From vectors at rows of points to λ: ∂₂Φᵀv and ∂₂Φ as a matrix, by the problem's formula or by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.compare.batch import Batch
from boundcheck.prepared import Leaves
from boundcheck.products import rows_d2, rows_d2_T, rows_outer


def read_off(batch: Batch, leaves: Leaves, w: Tensor, v: Tensor) -> Tensor:
    """∂₂Φ(w)ᵀv for the rows w and vectors v of shape (λ, rows, vectors, d): (λ, rows, vectors, n)."""
    if (formula := batch.problem.d2phi_T_at) is not None:
        return torch.stack([formula(w[i], ready)(v[i]) for i, ready in enumerate(batch.prepared.each)])
    cotangents = rows_d2_T(batch.problem.phi_at, w, leaves, v)
    pulled = batch.prepared.pull_back_rows(leaves, tuple(c.flatten(1, 2) for c in cotangents))
    return pulled.expand(-1, v.shape[1] * v.shape[2], -1).reshape(*v.shape[:3], -1)


def d2phi(batch: Batch, leaves: Leaves, w: Tensor) -> Tensor:
    """∂₂Φ(w) for the rows w, of shape (λ, rows, d, n)."""
    problem = batch.problem
    if problem.d2phi_T_at is None:
        return rows_d2(problem.phi_at, w, batch.prepared, leaves, problem.d)
    eye = torch.eye(problem.d, dtype=w.dtype, device=w.device)
    return read_off(batch, leaves, w, eye.expand(*w.shape[:2], -1, -1))


def d2outer(batch: Batch, leaves: Leaves, w: Tensor) -> Tensor:
    """∇₂E(w) for the rows w, of shape (λ, rows, n), or (λ, 1, n) where E does not depend on λ."""
    if (formula := batch.problem.d2outer_at) is not None:
        return torch.stack([formula(w[i], ready) for i, ready in enumerate(batch.prepared.each)])
    return batch.prepared.pull_back_rows(leaves, rows_outer(batch.problem, w, leaves).lam)


def lengths(batch: Batch, leaves: Leaves, w: Tensor, v: Tensor, rest: Tensor) -> Tensor:
    """‖∂₂Φ(w)ᵀv + rest‖ with `rest` of shape (λ, rows, n): (λ, rows, vectors). By formula, one λ after the other."""
    if (formula := batch.problem.d2phi_T_at) is None:
        found: Tensor = torch.linalg.vector_norm(read_off(batch, leaves, w, v) + rest[:, :, None], dim=-1)
        return found
    found = torch.empty_like(v[..., 0])
    for i, ready in enumerate(batch.prepared.each):
        product = formula(w[i], ready)(v[i])
        torch.linalg.vector_norm(product + rest[i, :, None], dim=-1, out=found[i])
    return found

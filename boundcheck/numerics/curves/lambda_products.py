"""From vectors at rows of points to λ: ∂₂Φᵀv and ∂₂Φ as a matrix, by the problem's formula or by autograd."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import rows_d2, rows_d2_T, rows_outer
from boundcheck.numerics.bilevel.formulas import D2, Diagonal, FullMatrices
from boundcheck.numerics.bilevel.prepared import Leaves
from boundcheck.numerics.bilevel.problem import Ready
from boundcheck.numerics.curves.batch import Batch, pieces

EVERY = slice(None)  # all λ of a batch


def together(batch: Batch) -> list[slice]:
    """Which λ to take at once: all, or where there are formulas, which stay in the cache, one after the other."""
    problem, count = batch.problem, len(batch.z)
    return pieces(0, count, 1) if problem.d2phi_T_at and problem.d2outer_at else [EVERY]


def read_off(batch: Batch, leaves: Leaves, w: Tensor, v: Tensor, lams: slice = EVERY) -> Tensor:
    """∂₂Φ(w)ᵀv for the rows w and vectors v of shape (λ, rows, vectors, d): (λ, rows, vectors, n)."""
    if (formula := batch.problem.d2phi_T_at) is not None:
        return _stack([formula(w[i], ready)(v[i]) for i, ready in enumerate(batch.prepared.each[lams])])
    cotangents = rows_d2_T(batch.problem.phi_at, w, leaves, v)
    pulled = batch.prepared.pull_back_rows(leaves, tuple(c.flatten(1, 2) for c in cotangents))
    return pulled.expand(-1, v.shape[1] * v.shape[2], -1).reshape(*v.shape[:3], -1)


def diagonal(batch: Batch, w: Tensor) -> Tensor | None:
    """The diagonals of ∂₂Φ(w) for the rows w, of shape (λ, rows, d), where a formula says that it is diagonal."""
    if (formula := batch.problem.d2phi_T_at) is None:
        return None
    found = [formula(w[i], ready) for i, ready in enumerate(batch.prepared.each)]
    entries = [one.entries for one in found if isinstance(one, Diagonal)]
    return _stack(entries) if len(entries) == len(found) else None


def d2phi(batch: Batch, leaves: Leaves, w: Tensor) -> Tensor:
    """∂₂Φ(w) for the rows w, of shape (λ, rows, d, n)."""
    return d2phi_T(batch, leaves, w)(EVERY).mT


def d2phi_T(batch: Batch, leaves: Leaves, w: Tensor) -> Callable[[slice], Tensor]:
    """What takes some λ to ∂₂Φ(w)ᵀ for their rows w, of shape (λ, rows, n, d): by formula, or computed here for all."""
    problem = batch.problem
    if problem.d2phi_T_at is None:
        return rows_d2(problem.phi_at, w, batch.prepared, leaves, problem.d).mT.__getitem__
    return partial(_matrices, problem.d2phi_T_at, w, batch.prepared.each)


def _matrices(formula: D2, w: Tensor, each: list[Ready], lams: slice) -> Tensor:
    found = [formula(*at) for at in zip(w[lams], each[lams], strict=True)]
    matrices = [one.entries for one in found if isinstance(one, FullMatrices)]
    if len(matrices) == len(found):
        return _stack(matrices)
    eye = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device).expand(w.shape[1], -1, -1)
    return _stack([one(eye).mT for one in found])


def d2outer(batch: Batch, leaves: Leaves, w: Tensor, lams: slice = EVERY) -> Tensor:
    """∇₂E(w) for the rows w, of shape (λ, rows, n), or (λ, 1, n) where E does not depend on λ."""
    if (formula := batch.problem.d2outer_at) is not None:
        return _stack([formula(w[i], ready) for i, ready in enumerate(batch.prepared.each[lams])])
    return batch.prepared.pull_back_rows(leaves, rows_outer(batch.problem, w, leaves).lam)


def _stack(found: list[Tensor]) -> Tensor:
    return found[0][None] if len(found) == 1 else torch.stack(found)

"""Derivatives by λ at rows of points: ∂₂Φᵀv, ∂₂Φ as a matrix and ∇₂E, by the problem's formula or by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import rows_d2, rows_d2_T, rows_outer
from boundcheck.numerics.bilevel.formulas import D2, Diagonal, FullMatrices
from boundcheck.numerics.bilevel.prepared import Cotangents, Leaves, Prepared
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.curves.batch import Batch, pieces
from boundcheck.numerics.curves.sizes import Sizes

EVERY = slice(None)  # all λ of a batch
COPIES = 6  # number of copies of the intermediate numbers in memory


def numbers_on_the_way(sizes: Sizes, methods: int) -> int:
    """Return how many intermediate numbers the products of these methods with ∂₂Φ have, for each t and λ."""
    outer = sizes.lam.n if sizes.lam_by_formula else 0
    return max(sizes.lam.n, sizes.lam.leaves) * max(1, methods) + outer


def numbers_held(sizes: Sizes, methods: int, ts: int) -> int:
    """Return the most numbers in memory, for a number of methods and of t, at all λ."""
    return ts * COPIES * numbers_on_the_way(sizes, methods)


def lambda_batches(batch: Batch) -> list[slice]:
    """Return the λ to work on at once: with formulas, one at a time, so that data stay in the cache; otherwise all."""
    problem, count = batch.problem, len(batch.z)
    return pieces(0, count, 1) if problem.d2phi_T_at and problem.d2outer_at else [EVERY]


def d2phi_T_v(batch: Batch, leaves: Leaves, w: Tensor, v: Tensor, lams: slice = EVERY) -> Tensor:
    """Return ∂₂Φ(w)ᵀv, of shape (λ, rows, vectors, n), for rows w and vectors v of shape (λ, rows, vectors, d)."""
    if (formula := batch.problem.d2phi_T_at) is not None:
        return _stack([formula(w[i], ready)(v[i]) for i, ready in enumerate(batch.prepared.each[lams])])
    cotangents = rows_d2_T(batch.problem.phi_at, w, leaves, v)
    pulled = batch.prepared.pull_back_rows(leaves, tuple(c.flatten(1, 2) for c in cotangents))
    return pulled.expand(-1, v.shape[1] * v.shape[2], -1).reshape(*v.shape[:3], -1)


def diagonal(batch: Batch, w: Tensor) -> Tensor | None:
    """Return the diagonals of ∂₂Φ(w) for rows w, of shape (λ, rows, d); None unless the formula is a `Diagonal`."""
    if (formula := batch.problem.d2phi_T_at) is None:
        return None
    products = [formula(w[i], ready) for i, ready in enumerate(batch.prepared.each)]
    diagonals = [product.entries for product in products if isinstance(product, Diagonal)]
    return _stack(diagonals) if len(diagonals) == len(products) else None


def d2phi(batch: Batch, leaves: Leaves, w: Tensor) -> Tensor:
    """Return ∂₂Φ(w) for rows w, of shape (λ, rows, d, n)."""
    return D2PhiMatrices(batch, leaves, w).of(EVERY).mT


class D2PhiMatrices:
    """∂₂Φ(w)ᵀ as matrices, by the problem's formula for some λ at a time, or formed once for all λ."""

    def __init__(self, batch: Batch, leaves: Leaves, w: Tensor) -> None:
        self._batch, self._leaves, self._w = batch, leaves, w
        self._formed: Tensor | None = None

    def of(self, lams: slice) -> Tensor:
        """Return the matrices at the rows w of some λ, of shape (λ, rows, n, d)."""
        problem, prepared = self._batch.problem, self._batch.prepared
        if problem.d2phi_T_at is not None:
            return _matrices(problem.d2phi_T_at, self._w[lams], prepared.each[lams])
        if self._formed is None:
            self._formed = rows_d2(problem.phi_at, self._w, prepared, self._leaves, problem.d).mT
        return self._formed[lams]


def _matrices(formula: D2, w: Tensor, each: list[Ready]) -> Tensor:
    products = [formula(points, ready) for points, ready in zip(w, each, strict=True)]
    matrices = [product.entries for product in products if isinstance(product, FullMatrices)]
    if len(matrices) == len(products):
        return _stack(matrices)
    eye = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device).expand(w.shape[1], -1, -1)
    return _stack([product(eye).mT for product in products])


def d2outer(batch: Batch, leaves: Leaves, w: Tensor, lams: slice = EVERY) -> Tensor:
    """Return ∇₂E(w) for rows w, of shape (λ, rows, n), or (λ, 1, n) if E does not depend on λ."""
    if (formula := batch.problem.d2outer_at) is not None:
        return _stack([formula(w[i], ready) for i, ready in enumerate(batch.prepared.each[lams])])
    return batch.prepared.pull_back_rows(leaves, rows_outer(batch.problem, w, leaves).lam)


class PulledCotangents:
    """Cotangents of the leaves for a block of t, which are pulled back to λ for some t at a time."""

    def __init__(self, prepared: Prepared, leaves: Leaves, cotangents: Cotangents) -> None:
        self._prepared, self._leaves, self._cotangents = prepared, leaves, cotangents
        self._ts, self._pulled = slice(0, 0), prepared.lams.new_empty(0)  # the last result, for all λ

    def of(self, ts: slice, lams: slice) -> Tensor:
        """Return the derivatives by λ for some t of the block and some λ, of shape (λ, t, n)."""
        if ts != self._ts:  # autograd pulls back all λ at once, so the other λ of these t need no work
            cotangents = tuple(c[:, ts] for c in self._cotangents)
            self._ts, self._pulled = ts, self._prepared.pull_back_rows(self._leaves, cotangents)
        return self._pulled[lams]


def _stack(tensors: list[Tensor]) -> Tensor:
    return tensors[0][None] if len(tensors) == 1 else torch.stack(tensors)

"""The data of one batch of λ that every method shares: the iterates, and products with ∂₁Φ at them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.numerics.bilevel.derivatives import Linearisation, Product, jacobian, rows
from boundcheck.numerics.bilevel.formulas import D1, DataMatrix
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.eigenbasis import Spectrum, spectrum_of, spectrum_of_data
from boundcheck.numerics.solvers import lower_level


class Products(Protocol):
    """∂₁Φᵀv and ∂₁Φu for rows v and u."""

    def d1_T(self, v: Tensor) -> Tensor: ...
    def d1(self, u: Tensor) -> Tensor: ...


def as_columns(v: Tensor) -> Tensor:
    """The same rows, with their first entries next to each other in memory, then their second ones, and so on."""
    return v.movedim(-1, 0).contiguous().movedim(0, -1)


@dataclass(frozen=True, eq=False)
class ConstantJacobian:
    """∂₁Φ = J for all points of a λ; J has shape (λ, d, d)."""

    J: Tensor

    def d1_T(self, v: Tensor) -> Tensor:
        return v @ self.J

    def d1(self, u: Tensor) -> Tensor:
        return u @ self.J.mT


@dataclass(frozen=True, eq=False)
class Formula:
    """A symmetric ∂₁Φ by the formula of the problem, which is one for columns: rows should be laid out `as_columns`."""

    product: Product | DataMatrix

    def d1_T(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """In `out`, where the formula has a use for it."""
        if out is not None and isinstance(self.product, DataMatrix):
            self.product(v.movedim(-1, 0), out.movedim(-1, 0))
            return out
        return self.product(v.movedim(-1, 0)).movedim(0, -1)

    d1 = d1_T

    @cached_property
    def remaining(self) -> DataMatrix | None:
        """I − ∂₁Φ, where that is of the same kind."""
        return self.product.remaining() if isinstance(self.product, DataMatrix) else None


def transposed(at: Products, v: Tensor, room: Tensor) -> Tensor:
    """∂₁Φᵀv for rows v, perhaps in `room`, which is laid out like v or v itself: less memory is passed over then."""
    return at.d1_T(v, room) if isinstance(at, Formula) else at.d1_T(v)


def remaining(at: Products, v: Tensor, room: Tensor) -> Tensor:
    """v − ∂₁Φᵀv for rows v, perhaps in `room`, which is laid out like v and not v."""
    if isinstance(at, Formula) and at.remaining is not None:
        at.remaining(v.movedim(-1, 0), room.movedim(-1, 0))
        return room
    return torch.sub(v, at.d1_T(v), out=room)


@dataclass(frozen=True, eq=False)
class Batch:
    """States z_0 … z_T for each of several λ, of shape (λ, T + 1, state)."""

    problem: Problem
    prepared: Prepared
    z: Tensor
    constant: ConstantJacobian | None = None  # where ∂₁Φ is one matrix for each λ and was formed
    spectrum: Spectrum | None = None  # … and is symmetric

    @property
    def T(self) -> int:
        return self.z.shape[1] - 1

    @property
    def w(self) -> Tensor:
        """w_1 … w_T, of shape (λ, T, d)."""
        return self.problem.dynamics.iterate(self.z[:, 1:])

    def products(self, w: Tensor) -> Products:
        """Products with ∂₁Φ at the rows of w."""
        if self.constant is not None:
            return self.constant
        if self.formula is not None:
            found = self.formula(w.movedim(-1, 0), self.prepared.leaves.for_columns())
            return Formula(found.spread() if isinstance(found, DataMatrix) else found)
        return Linearisation(rows(self.problem.phi_at), w, self.prepared.ready)

    def products_along(self, w: Tensor, count: int) -> Iterator[Products]:
        """For one row of w after the other, products for `count` vectors at it."""
        shared = self.formula is not None or self.constant is not None
        if self.formula is not None:
            found = self.formula(w.movedim(-1, 0), self.prepared.leaves.for_columns())
            if isinstance(found, DataMatrix):
                yield from (Formula(found.column(i)) for i in range(w.shape[1]))
                return
        for i in range(w.shape[1]):
            row = w[:, i : i + 1]
            yield self.products(row if shared else row.expand(-1, count, -1))

    @property
    def formula(self) -> D1 | None:
        """The problem's own for ∂₁Φᵀv, where ∂₁Φ is symmetric and not one matrix that was formed."""
        return self.problem.d1phi_T_at if self.constant is None and self.problem.symmetric else None

    def laid_out(self, v: Tensor) -> Tensor:
        """Rows v as `products` take them most quickly."""
        return as_columns(v) if self.formula else v


def run(problem: Problem, prepared: Prepared, T: int, *, constant: bool) -> Batch:
    """T steps of the dynamics for all rows of λ at once; with `constant`, also ∂₁Φ as a matrix for each λ."""
    z0 = problem.dynamics.start(problem.w0).expand(len(prepared.lams), -1)
    states = torch.empty(len(z0), T + 1, z0.shape[-1], dtype=z0.dtype, device=z0.device)
    states[:, 0] = z0
    for t, z in enumerate(lower_level.many(problem, prepared, z0, T)):
        states[:, t + 1] = z
    if not constant:
        return Batch(problem, prepared, states)
    if problem.d1phi_T_at is not None and problem.symmetric:
        found = [problem.d1phi_T_at(problem.w0, ready) for ready in prepared.each]
        grams = [one for one in found if isinstance(one, DataMatrix) and one.isotropic]
        if len(grams) == len(found):
            return Batch(problem, prepared, states, *_of_data(grams))
    J = vmap(lambda ready: jacobian(lambda w: problem.phi_at(w, ready), problem.w0))(prepared.ready)
    if not problem.symmetric:
        return Batch(problem, prepared, states, ConstantJacobian(J))
    return Batch(problem, prepared, states, ConstantJacobian(J), spectrum_of(J))


def _of_data(grams: list[DataMatrix]) -> tuple[ConstantJacobian, Spectrum]:
    """∂₁Φ = kept·I + weight·UᵀU for each λ, as a matrix and in its eigenvectors."""
    U, weight, kept = (torch.stack([getattr(one, name) for one in grams]) for name in ("U", "weight", "kept"))
    J = weight[:, None, None] * (U.mT @ U)
    J.diagonal(dim1=-2, dim2=-1).add_(kept[:, None])
    return ConstantJacobian(J), spectrum_of_data(U, weight, kept)


TILE = 24  # columns that a product of matrices takes at a time with AVX-512, 12 with AVX2: some more cost as many


def tiled(rows: int, lams: int) -> int:
    """At least so many rows, such that those of so many λ are whole tiles of columns."""
    step = TILE // math.gcd(TILE, lams)
    return -(-rows // step) * step


def pieces(start: int, stop: int, size: int) -> list[slice]:
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]

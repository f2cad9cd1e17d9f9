"""A batch of λ with its iterates and products with ∂₁Φ at them, and the division of work into pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.numerics.bilevel.derivatives import Linearisation, jacobian, rows
from boundcheck.numerics.bilevel.formulas import D1, DataMatrix, for_columns
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.eigenbasis import Spectrum, spectrum_of, spectrum_of_data
from boundcheck.numerics.curves.jacobian import ConstantJacobian, Formula, Products, as_columns
from boundcheck.numerics.solvers import lower_level
from boundcheck.progress import counted

TILE = (
    24  # columns in a tile of a matrix product with AVX-512 (12 with AVX2); a partial tile costs as much as a full one
)


@dataclass(frozen=True, eq=False)
class Batch:
    """The states z_0 … z_T for each of several λ, of shape (λ, T + 1, state)."""

    problem: Problem
    prepared: Prepared
    z: Tensor
    constant: ConstantJacobian | None = None  # ∂₁Φ, if it is one matrix for each λ and was formed
    spectrum: Spectrum | None = None  # its eigenvectors, if it is symmetric

    @property
    def T(self) -> int:
        return self.z.shape[1] - 1

    @property
    def w(self) -> Tensor:
        """w_1 … w_T, of shape (λ, T, d)."""
        return self.problem.dynamics.iterate(self.z[:, 1:])

    def products(self, w: Tensor) -> Products:
        """Return products with ∂₁Φ at the rows of w."""
        if self.constant is not None:
            return self.constant
        if self.formula is not None:
            product = self.formula(w.movedim(-1, 0), self.prepared.leaves.for_columns())
            return Formula(product.spread() if isinstance(product, DataMatrix) else product)
        return Linearisation(rows(self.problem.phi_at), w, self.prepared.ready)

    def products_along(self, w: Tensor, count: int) -> Iterator[Products]:
        """Yield, for each row of w, products with ∂₁Φ at this row for `count` vectors."""
        shared = self.formula is not None or self.constant is not None
        if self.formula is not None:
            product = self.formula(w.movedim(-1, 0), self.prepared.leaves.for_columns())
            if isinstance(product, DataMatrix):
                yield from (Formula(product.column(i)) for i in range(w.shape[1]))
                return
        for i in range(w.shape[1]):
            row = w[:, i : i + 1]
            yield self.products(row if shared else row.expand(-1, count, -1))

    @property
    def formula(self) -> D1 | None:
        """The problem's formula for ∂₁Φᵀv, if ∂₁Φ is symmetric and was not formed as a matrix."""
        return for_columns(self.problem.d1phi_T_at) if self.constant is None and self.problem.symmetric else None

    def laid_out(self, v: Tensor) -> Tensor:
        """Return rows v in the memory layout for which `products` is fastest."""
        return as_columns(v) if self.formula else v


def run(problem: Problem, prepared: Prepared, T: int, *, constant: bool) -> Batch:
    """Do T steps of the dynamics for all λ at once. With `constant`, also form ∂₁Φ as a matrix for each λ."""
    z0 = problem.dynamics.start(problem.w0).expand(len(prepared.lams), -1)
    states = torch.empty(len(z0), T + 1, z0.shape[-1], dtype=z0.dtype, device=z0.device)
    states[:, 0] = z0
    for t, z in enumerate(counted(lower_level.many(problem, prepared, z0, T), "iterating Φ", T)):
        states[:, t + 1] = z
    return of_states(problem, prepared, states, constant=constant)


def of_states(problem: Problem, prepared: Prepared, states: Tensor, *, constant: bool) -> Batch:
    """Return the batch with states that an earlier run of the dynamics computed."""
    batch = Batch(problem, prepared, states)
    return _with_constant_jacobian(batch) if constant else batch


def _with_constant_jacobian(batch: Batch) -> Batch:
    """Return the batch with ∂₁Φ as a matrix for each λ, and its eigenvectors if it is symmetric."""
    problem, prepared = batch.problem, batch.prepared
    if (formula := for_columns(problem.d1phi_T_at)) is not None and problem.symmetric:
        products = [formula(problem.w0, ready) for ready in prepared.each]
        isotropic = [product for product in products if isinstance(product, DataMatrix) and product.isotropic]
        if len(isotropic) == len(products):
            return _from_data(batch, isotropic)
    J = vmap(lambda ready: jacobian(lambda w: problem.phi_at(w, ready), problem.w0))(prepared.ready)
    return replace(batch, constant=ConstantJacobian(J), spectrum=spectrum_of(J) if problem.symmetric else None)


def _from_data(batch: Batch, matrices: list[DataMatrix]) -> Batch:
    """Return the batch with ∂₁Φ = diagonal·I + weight·UᵀU for each λ, as a matrix and with its eigenvectors."""
    U = torch.stack([matrix.U for matrix in matrices])
    weight = torch.stack([matrix.weight for matrix in matrices])
    diagonal = torch.stack([matrix.diagonal for matrix in matrices])
    J = weight[:, None, None] * (U.mT @ U)
    J.diagonal(dim1=-2, dim2=-1).add_(diagonal[:, None])
    return replace(batch, constant=ConstantJacobian(J), spectrum=spectrum_of_data(U, weight, diagonal))


def tiled(rows: int, lams: int) -> int:
    """Return the smallest number of at least `rows` rows that fills whole tiles of columns for `lams` values of λ."""
    step = TILE // math.gcd(TILE, lams)
    return -(-rows // step) * step


def pieces(start: int, stop: int, size: int) -> list[slice]:
    """Return the indices from `start` to `stop` in pieces of `size`. The last piece may be shorter."""
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]


def within(part: slice, outer: slice) -> slice:
    """Return the indices of `part`, counted from the start of `outer`."""
    return slice(part.start - outer.start, part.stop - outer.start)

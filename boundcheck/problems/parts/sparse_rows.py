"""Products with some rows of a sparse matrix; under `vmap`, each member of a batch can have its own rows.

Only the entries of these rows are read, and no row becomes dense. As in `sparse_matrix.py`, the matrix is a plain
object. The row numbers are a tensor, so `vmap` can give each of many runs its own minibatch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.problems.parts.sparse_matrix import SparseMatrix


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Some rows of a sparse matrix X.

    Attributes
    ----------
    matrix : SparseMatrix
        X, of shape (m, p).
    indices : Tensor of shape (b,)
        The numbers of the rows; a row may occur several times.
    """

    matrix: SparseMatrix
    indices: Tensor

    def matmul(self, W: Tensor) -> Tensor:
        """Return the product of the rows, of shape (b, p), with W of shape (p, c)."""
        product: Tensor = _RowsProduct.apply(W[None], self.indices[None], self.matrix, False)  # type: ignore[no-untyped-call]
        return product[0]

    def transposed_matmul(self, R: Tensor) -> Tensor:
        """Return the product of the transposed rows, of shape (p, b), with R of shape (b, c)."""
        product: Tensor = _RowsProduct.apply(R[None], self.indices[None], self.matrix, True)  # type: ignore[no-untyped-call]
        return product[0]


class _RowsProduct(torch.autograd.Function):
    """V ↦ X[indices]V or X[indices]ᵀV, for V of shape (B, ·, c) and indices of shape (B, b). Linear in V."""

    @staticmethod
    def forward(V: Tensor, indices: Tensor, matrix: SparseMatrix, transposed: bool) -> Tensor:
        return _multiply(V, indices, matrix, transposed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, SparseMatrix, bool], output: Tensor) -> None:
        _, indices, ctx.matrix, ctx.transposed = inputs
        ctx.save_for_backward(indices)
        ctx.save_for_forward(indices)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (indices,) = ctx.saved_tensors
        return _RowsProduct.apply(grad, indices, ctx.matrix, not ctx.transposed), None, None, None  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        (indices,) = ctx.saved_tensors
        product: Tensor = _RowsProduct.apply(tangent, indices, ctx.matrix, ctx.transposed)  # type: ignore[no-untyped-call]
        return product

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int | None, None, None], V: Tensor, indices: Tensor,
        matrix: SparseMatrix, transposed: bool,
    ) -> tuple[Tensor, int]:  # fmt: skip
        """Merge the new axis with the axis of the runs."""
        size = info.batch_size
        V, indices = (
            x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((V, indices), in_dims[:2], strict=True)
        )
        product = _RowsProduct.apply(V.flatten(0, 1), indices.flatten(0, 1), matrix, transposed)  # type: ignore[no-untyped-call]
        return product.reshape(size, -1, *product.shape[1:]), 0


def _multiply(V: Tensor, indices: Tensor, matrix: SparseMatrix, transposed: bool) -> Tensor:
    """Multiply in one pass over the entries; each adds its value times a row of V to a row of the result."""
    runs, b = indices.shape
    X, p = matrix.X, matrix.shape[1]
    crow = X.crow_indices()
    rows = indices.reshape(-1)
    first = crow[rows].long()
    count = crow[rows + 1].long() - first
    place = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), count)  # the row of each entry
    before = count.cumsum(0) - count
    entry = torch.arange(len(place), device=rows.device) - before[place] + first[place]
    column, value, run = X.col_indices()[entry].long(), X.values()[entry], place // b
    if transposed:
        terms = value[:, None] * V[run, place % b]
        return V.new_zeros(runs * p, V.shape[-1]).index_add_(0, run * p + column, terms).reshape(runs, p, -1)
    terms = value[:, None] * V[run, column]
    return V.new_zeros(runs * b, V.shape[-1]).index_add_(0, place, terms).reshape(runs, b, -1)

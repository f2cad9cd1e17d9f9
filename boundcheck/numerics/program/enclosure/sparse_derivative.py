"""Sparse derivatives: most of their numbers are 0 and are not stored.

The derivative of a tensor x by an input of length k is a matrix with a row for each entry of x. For a piece of λ, or
its product with data, most entries of this matrix are 0: an entry of XH depends on one column of H. A linear operation
y = Mx takes the derivative D to MD. Its coefficients M are known for moves of numbers, factors, sums, and products of
matrices. Every number of MD is a sum of products that the operation itself forms, so it has no more rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags, identity, kron
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import SPARSE, spectral_norm
from boundcheck.numerics.program.enclosure.intervals import VANISHING
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.rounding_rules.ball import TINY, gamma

LARGE = 1_000_000  # a derivative with fewer numbers is stored as a dense tensor
MOST_FORMED = 60_000_000  # largest number of numbers of a dense tensor: half a gigabyte
Coefficients = Callable[[], csr_matrix | None]  # the matrix of a linear operation, with a row for each result entry


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse derivative. `rows` has a row for each entry of x, and `shape` is the shape of x."""

    rows: csr_matrix
    shape: torch.Size
    _lines: dict[int, Tensor | None] = field(default_factory=dict, init=False)

    @property
    def k(self) -> int:
        """The length of the input."""
        return int(self.rows.shape[1])

    def formed(self) -> Tensor:
        """Return the derivative as a dense tensor of shape (k, *shape)."""
        if self.k * self.shape.numel() > MOST_FORMED:
            raise Declined(f"a derivative of {self.shape.numel()} × {self.k} numbers is too large to be formed")
        return torch.from_numpy(self.rows.T.toarray()).reshape(self.k, *self.shape)

    def moved(self, M: csr_matrix, shape: torch.Size) -> Sparse:
        """Return the derivative of Mx."""
        return Sparse((M @ self.rows).tocsr(), shape)

    def scaled(self, numbers: Tensor) -> Sparse:
        """Return the derivative of x times numbers, entry by entry."""
        return self.moved(diags(numbers.reshape(-1).numpy(), format="csr"), self.shape)

    def row_norms(self) -> Tensor:
        """Return upper bounds of the Euclidean norms of the rows, in the shape of x."""
        rows = self.rows
        squares = np.asarray(rows.multiply(rows).sum(1)).reshape(-1)
        norms = torch.from_numpy(np.sqrt(squares))
        if bool((norms < VANISHING).any()):  # squares lose digits
            top = torch.from_numpy(np.asarray(abs(rows).max(axis=1).todense()).reshape(-1))
            norms = torch.where(top < VANISHING, top * self.k**0.5, norms)
        return (norms * (1 + 2.0**-45 + gamma(self.k)) + self.k * TINY).reshape(self.shape)

    def norm(self) -> float:
        """Return an upper bound of the matrix norm, the largest norm of the blocks that share no row and no column."""
        return norm_of_blocks(self.rows)

    def line_norms(self, axis: int, most: int) -> Tensor | None:
        """Return upper bounds of ‖D‖² for the entries along an axis together, by row sums of |DDᵀ|.

        None if there are more than `most` such lines.
        """
        if axis not in self._lines:
            self._lines[axis] = self._line_norms(axis, most)
        return self._lines[axis]

    def _line_norms(self, axis: int, most: int) -> Tensor | None:
        places = torch.arange(self.shape.numel()).reshape(self.shape).movedim(axis, -1)
        lines = places.reshape(-1, places.shape[-1])
        if len(lines) > most:
            return None
        norms, squares = self.row_norms().reshape(-1), []
        for line in lines:
            rows = self.rows[line.numpy()]
            gram = abs(rows @ rows.T).sum(1)
            error = gamma(self.k + 2) * norms[line] * norms[line].sum()
            squares.append((torch.from_numpy(np.asarray(gram).reshape(-1)) + error).max())
        return torch.stack(squares).reshape(places.shape[:-1])


def kept(D: Sparse) -> Sparse | Tensor:
    """Return the derivative as a dense tensor if it is small or has few zeros; otherwise unchanged."""
    numbers = D.k * D.shape.numel()
    return D if numbers >= LARGE and D.rows.nnz <= SPARSE * numbers else D.formed()


def without_zeros(F: Tensor) -> Sparse | None:
    """Return a dense derivative of shape (k, *shape) as a sparse one; None if it has few zeros."""
    if not F.numel() or int(F.count_nonzero()) > SPARSE * F.numel():
        return None
    return Sparse(csr_matrix(F.reshape(F.shape[0], -1).T.numpy()), F.shape[1:])


def unit(shape: torch.Size) -> Sparse:
    """Return the derivative of an input by itself, the identity."""
    return Sparse(identity(shape.numel(), format="csr"), shape)


def norm_of_blocks(J: csr_matrix) -> float:
    """Return an upper bound of ‖J‖ for a sparse matrix, from the norms of its blocks."""
    J = J.tocsr()
    J.sum_duplicates()
    rows, columns = J.shape
    if not J.nnz:
        return 0.0
    if not np.isfinite(J.data).all():
        return math.inf
    entries = J.tocoo()
    edges_of_graph = np.ones(entries.nnz), (entries.row, rows + entries.col)
    graph = csr_matrix(edges_of_graph, shape=(rows + columns, rows + columns))
    count, labels = connected_components(graph, directed=False)
    if count == 1:
        return _norm_of_block(J)
    squares = np.bincount(labels[entries.row], weights=entries.data**2, minlength=count)
    limits = np.sqrt(squares) * (1 + 1e-12) + J.nnz * 1e-140  # upper bounds of the Frobenius norms of the blocks
    by_row, by_column = np.argsort(labels[:rows], kind="stable"), np.argsort(labels[rows:], kind="stable")
    edges = np.arange(count + 1)
    row_ends = np.searchsorted(labels[:rows][by_row], edges)
    column_ends = np.searchsorted(labels[rows:][by_column], edges)
    best, norms = 0.0, dict[object, float]()
    for block in np.argsort(-limits):
        if limits[block] <= best:
            break
        block_rows = J[by_row[row_ends[block] : row_ends[block + 1]]]
        B = block_rows[:, by_column[column_ends[block] : column_ends[block + 1]]].tocsr()
        B.sort_indices()
        key = B.shape, B.indptr.tobytes(), B.indices.tobytes(), B.data.tobytes()
        if key not in norms:  # blocks are often equal
            norms[key] = _norm_of_block(B)
        best = max(best, min(norms[key], float(limits[block])))
    return best


def _norm_of_block(J: csr_matrix) -> float:
    """Return an upper bound of ‖J‖. For a block too large to be formed, use its largest row sum and column sum."""
    if math.prod(J.shape) <= MOST_FORMED:
        return spectral_norm(torch.from_numpy(J.toarray()))
    sizes = abs(J)
    return math.sqrt(float(sizes.sum(0).max()) * float(sizes.sum(1).max())) * (1 + 2.0**-45 + gamma(J.nnz))


def of_moves(f: Callable[[Tensor], Tensor], shape: torch.Size) -> csr_matrix:
    """Return the matrix of an operation that only moves numbers, or replaces them by zeros."""
    count = shape.numel()
    source = f(torch.arange(1, count + 1, dtype=torch.float64).reshape(shape)).reshape(-1).long() - 1
    to = (source >= 0).nonzero().reshape(-1)
    return _matrix(np.ones(len(to)), to, source[to], (len(source), count))


def of_factors(numbers: Tensor, shape: torch.Size, result: torch.Size) -> csr_matrix:
    """Return the matrix of x times numbers, entry by entry, broadcast to the shape of the result."""
    expansion = of_moves(lambda x: x.expand(result), shape)
    return (diags(numbers.expand(result).reshape(-1).numpy()) @ expansion).tocsr()


def of_sum(f: Callable[[Tensor], Tensor], shape: torch.Size, share: float) -> csr_matrix:
    """Return the matrix of `share` times a sum over axes. A mean is such a sum."""
    zero = torch.zeros(shape, dtype=torch.float64)
    total, back = torch.func.vjp(lambda x: f(x) / share, zero)[:2]
    names = torch.arange(1, total.numel() + 1, dtype=torch.float64).reshape(total.shape)
    to = back(names)[0].reshape(-1).round().long() - 1
    return _matrix(np.full(len(to), share), to, torch.arange(len(to)), (total.numel(), len(to)))


def of_product(numbers: Tensor, shape: torch.Size, first: bool) -> csr_matrix | None:
    """Return the matrix of x @ numbers if `first`, else of numbers @ x; None for more than two axes."""
    if len(shape) > 2 or numbers.dim() > 2 or not len(shape) or not numbers.dim():
        return None
    if first:
        right = numbers.reshape(numbers.shape[0], -1).T.numpy()
        return kron(identity(shape[0] if len(shape) == 2 else 1), csr_matrix(right), format="csr")
    left = numbers.reshape(-1, numbers.shape[-1]).numpy()
    return kron(csr_matrix(left), identity(shape[1] if len(shape) == 2 else 1), format="csr")


def _matrix(values: np.ndarray, rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> csr_matrix:
    return csr_matrix((values, (rows.numpy(), columns.numpy())), shape=shape)

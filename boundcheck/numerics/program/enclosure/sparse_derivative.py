"""Derivatives of which most numbers are 0, kept without the zeros.

The derivative of a tensor x by an input of length k is a matrix with a row for each entry of x. Of a piece of λ, and of
a product of that with data, few of its numbers are not 0: an entry of XH depends on one column of H. A linear operation
y = Mx takes the derivative D to MD, and M is known by its coefficients: moves of numbers, factors, sums, products of
matrices. Every number of MD is a sum of the products that the operation itself forms, so it rounds no more.
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

LARGE = 1_000_000  # numbers from which zeros are left out
MOST_FORMED = 60_000_000  # numbers that are formed at once: half a gigabyte
Coefficients = Callable[[], csr_matrix | None]  # of a linear operation, a row for each entry of its result


@dataclass(frozen=True, eq=False)
class Sparse:
    """A derivative without its zeros: `rows` has a row for each entry of x, whose shape is `shape`."""

    rows: csr_matrix
    shape: torch.Size
    _lines: dict[int, Tensor | None] = field(default_factory=dict, init=False)

    @property
    def k(self) -> int:
        """The length of the input."""
        return int(self.rows.shape[1])

    def formed(self) -> Tensor:
        """All numbers, of shape (k, *shape)."""
        if self.k * self.shape.numel() > MOST_FORMED:
            raise Declined(f"a derivative of {self.shape.numel()} × {self.k} numbers is too large to be formed")
        return torch.from_numpy(self.rows.T.toarray()).reshape(self.k, *self.shape)

    def moved(self, M: csr_matrix, shape: torch.Size) -> Sparse:
        """The derivative of Mx."""
        return Sparse((M @ self.rows).tocsr(), shape)

    def scaled(self, numbers: Tensor) -> Sparse:
        """The derivative of x times numbers, entry by entry."""
        return self.moved(diags(numbers.reshape(-1).numpy(), format="csr"), self.shape)

    def row_norms(self) -> Tensor:
        """At least the Euclidean norm of each row, in the shape of x."""
        rows = self.rows
        squares = np.asarray(rows.multiply(rows).sum(1)).reshape(-1)
        norms = torch.from_numpy(np.sqrt(squares))
        if bool((norms < VANISHING).any()):  # whose squares lose digits
            top = torch.from_numpy(np.asarray(abs(rows).max(axis=1).todense()).reshape(-1))
            norms = torch.where(top < VANISHING, top * self.k**0.5, norms)
        return (norms * (1 + 2.0**-45 + gamma(self.k)) + self.k * TINY).reshape(self.shape)

    def norm(self) -> float:
        """At least the norm as a matrix: that of one of the blocks that share no row and no column."""
        return norm_of_blocks(self.rows)

    def line_norms(self, axis: int, most: int) -> Tensor | None:
        """At least ‖D‖² of the entries along an axis together, by row sums of |DDᵀ|; None for more than `most`."""
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
            some = self.rows[line.numpy()]
            gram = abs(some @ some.T).sum(1)
            lost = gamma(self.k + 2) * norms[line] * norms[line].sum()
            squares.append((torch.from_numpy(np.asarray(gram).reshape(-1)) + lost).max())
        return torch.stack(squares).reshape(places.shape[:-1])


def kept(D: Sparse) -> Sparse | Tensor:
    """The same, formed where that is small or there are few zeros."""
    numbers = D.k * D.shape.numel()
    return D if numbers >= LARGE and D.rows.nnz <= SPARSE * numbers else D.formed()


def without_zeros(F: Tensor) -> Sparse | None:
    """A derivative of shape (k, *shape) without its zeros; None where there are few."""
    if not F.numel() or int(F.count_nonzero()) > SPARSE * F.numel():
        return None
    return Sparse(csr_matrix(F.reshape(F.shape[0], -1).T.numpy()), F.shape[1:])


def unit(shape: torch.Size) -> Sparse:
    """The derivative of an input by itself."""
    return Sparse(identity(shape.numel(), format="csr"), shape)


def norm_of_blocks(J: csr_matrix) -> float:
    """At least ‖J‖ of a sparse matrix."""
    J = J.tocsr()
    J.sum_duplicates()
    rows, columns = J.shape
    if not J.nnz:
        return 0.0
    if not np.isfinite(J.data).all():
        return math.inf
    at = J.tocoo()
    graph = csr_matrix((np.ones(at.nnz), (at.row, rows + at.col)), shape=(rows + columns, rows + columns))
    count, labels = connected_components(graph, directed=False)
    if count == 1:
        return _norm_of_block(J)
    squares = np.bincount(labels[at.row], weights=at.data**2, minlength=count)
    limits = np.sqrt(squares) * (1 + 1e-12) + J.nnz * 1e-140  # at least the Frobenius norm of each block
    by_row, by_column = np.argsort(labels[:rows], kind="stable"), np.argsort(labels[rows:], kind="stable")
    edges = np.arange(count + 1)
    row_ends = np.searchsorted(labels[:rows][by_row], edges)
    column_ends = np.searchsorted(labels[rows:][by_column], edges)
    best, norms = 0.0, dict[object, float]()
    for block in np.argsort(-limits):
        if limits[block] <= best:
            break
        some = J[by_row[row_ends[block] : row_ends[block + 1]]]
        own = some[:, by_column[column_ends[block] : column_ends[block + 1]]].tocsr()
        own.sort_indices()
        key = own.shape, own.indptr.tobytes(), own.indices.tobytes(), own.data.tobytes()
        if key not in norms:  # blocks are often copies of one
            norms[key] = _norm_of_block(own)
        best = max(best, min(norms[key], float(limits[block])))
    return best


def _norm_of_block(J: csr_matrix) -> float:
    """At least ‖J‖; of a block that is too large to be formed, by its largest sums of rows and of columns."""
    if math.prod(J.shape) <= MOST_FORMED:
        return spectral_norm(torch.from_numpy(J.toarray()))
    sizes = abs(J)
    return math.sqrt(float(sizes.sum(0).max()) * float(sizes.sum(1).max())) * (1 + 2.0**-45 + gamma(J.nnz))


def of_moves(f: Callable[[Tensor], Tensor], shape: torch.Size) -> csr_matrix:
    """The coefficients of an operation that only moves numbers, or leaves zeros in their place."""
    count = shape.numel()
    source = f(torch.arange(1, count + 1, dtype=torch.float64).reshape(shape)).reshape(-1).long() - 1
    to = (source >= 0).nonzero().reshape(-1)
    return _matrix(np.ones(len(to)), to, source[to], (len(source), count))


def of_factors(numbers: Tensor, shape: torch.Size, result: torch.Size) -> csr_matrix:
    """The coefficients of x times numbers, entry by entry, broadcast to the shape of the result."""
    moved = of_moves(lambda x: x.expand(result), shape)
    return (diags(numbers.expand(result).reshape(-1).numpy()) @ moved).tocsr()


def of_sum(f: Callable[[Tensor], Tensor], shape: torch.Size, share: float) -> csr_matrix:
    """The coefficients of a sum over axes; `share` times it for a mean."""
    zero = torch.zeros(shape, dtype=torch.float64)
    total, back = torch.func.vjp(lambda x: f(x) / share, zero)[:2]
    names = torch.arange(1, total.numel() + 1, dtype=torch.float64).reshape(total.shape)
    to = back(names)[0].reshape(-1).round().long() - 1
    return _matrix(np.full(len(to), share), to, torch.arange(len(to)), (total.numel(), len(to)))


def of_product(numbers: Tensor, shape: torch.Size, first: bool) -> csr_matrix | None:
    """The coefficients of x @ numbers, or of numbers @ x where x is not first; None for more than two axes."""
    if len(shape) > 2 or numbers.dim() > 2 or not len(shape) or not numbers.dim():
        return None
    if first:
        right = numbers.reshape(numbers.shape[0], -1).T.numpy()
        return kron(identity(shape[0] if len(shape) == 2 else 1), csr_matrix(right), format="csr")
    left = numbers.reshape(-1, numbers.shape[-1]).numpy()
    return kron(csr_matrix(left), identity(shape[1] if len(shape) == 2 else 1), format="csr")


def _matrix(values: np.ndarray, rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> csr_matrix:
    return csr_matrix((values, (rows.numpy(), columns.numpy())), shape=shape)

"""Linear maps of w in programs: entries of w, a matrix times w, a product with a matrix of entries of w."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise.stage import Stage, Unknown, Value, example

MOST_NUMBERS = 5_000_000  # largest number of entries of a matrix to form


@dataclass(frozen=True, eq=False)
class Selection:
    """ℓ(w) = w[index]."""

    index: Tensor

    def is_all_of(self, d: int) -> bool:
        """Return True if the map is w itself, in the order of its entries."""
        return self.index.numel() == d and bool((self.index.reshape(-1) == _range(d, self.index)).all())


@dataclass(frozen=True, eq=False)
class Rows:
    """ℓ(w) = Fw, with an entry for each row of F."""

    matrix: Value


@dataclass(frozen=True, eq=False)
class TwoSided:
    """ℓ(w) = L w[index] R, where w[index] is a matrix. None for L or R means the identity."""

    left: Value | None
    index: Tensor
    right: Value | None


@dataclass(frozen=True, eq=False)
class Combination:
    """Σ a∘ℓ(w) over several linear maps ℓ of the same shape."""

    pieces: tuple[tuple[Value | None, Linear], ...]


Linear = Selection | Rows | TwoSided | Combination


def _range(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, device=like.device)


def same(one: Linear, other: Linear) -> bool:
    """Return True if two maps are known to be equal."""
    if one is other:
        return True
    if isinstance(one, Selection) and isinstance(other, Selection):
        return one.index.shape == other.index.shape and bool(torch.equal(one.index, other.index))
    return isinstance(one, Rows) and isinstance(other, Rows) and equal(one.matrix, other.matrix)


def equal(x: Value | None, y: Value | None) -> bool:
    """Return True if two values are known to be equal."""
    return x is y or (isinstance(x, Tensor) and isinstance(y, Tensor) and torch.equal(x, y))


def flat(x: Tensor, shape: torch.Size) -> Tensor:
    """Return a coefficient as a vector with one number for each entry of `shape`; a single number stays a scalar."""
    return x.reshape(()) if x.numel() == 1 else x.expand(shape).reshape(-1)


def as_rows(stage: Stage, linear: Linear, shape: torch.Size, d: int, like: Tensor) -> Rows:
    """Return the map as a matrix, with a row for each entry of its value."""
    if isinstance(linear, Rows):
        return linear
    if shape.numel() * d > MOST_NUMBERS:
        raise Unknown(f"a matrix of {shape.numel()} × {d}")
    if isinstance(linear, Selection):
        matrix = torch.zeros(shape.numel(), d, dtype=like.dtype, device=like.device)
        matrix[_range(shape.numel(), like), linear.index.expand(shape).reshape(-1)] = 1
        return Rows(matrix)
    if isinstance(linear, Combination):
        total: Value | None = None
        for a, piece in linear.pieces:
            rows = as_rows(stage, piece, shape, d, like).matrix
            if a is not None:
                rows = stage.compute(lambda a, F: _scaled(flat(a, shape), F), a, rows)
            total = rows if total is None else stage.compute(torch.add, total, rows)
        if total is None:
            raise Unknown("an empty sum")
        return Rows(total)
    raise Unknown("a matrix of parameters")


def _scaled(a: Tensor, F: Tensor) -> Tensor:
    return a * F if a.dim() == 0 else a[:, None] * F


def columns_at(stage: Stage, A: Value, index: Tensor, d: int) -> Value:
    """Return the matrix F with Fw = A w[index]."""
    if index.numel() == d and torch.equal(index, _range(d, index)):
        return A

    def scattered(A: Tensor) -> Tensor:
        return torch.zeros(len(A), d, dtype=A.dtype, device=A.device).index_add(1, index, A)

    if example(A).shape[0] * d > MOST_NUMBERS:
        raise Unknown(f"a matrix of {example(A).shape[0]} × {d}")
    result: Value = stage.compute(scattered, A)
    return result

"""Linear maps of w that programs are made of: entries of w, rows of a matrix times w, a matrix of entries of w."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise.stage import Stage, Unknown, Value, example

MOST_NUMBERS = 5_000_000  # in a matrix that is formed


@dataclass(frozen=True, eq=False)
class Selection:
    """ℓ(w) = w[index]."""

    index: Tensor

    def is_all_of(self, d: int) -> bool:
        """Is it w itself, in the order of its entries?"""
        return self.index.numel() == d and bool((self.index.reshape(-1) == _range(d, self.index)).all())


@dataclass(frozen=True, eq=False)
class Rows:
    """ℓ(w) = Fw, with an entry for each row of F."""

    matrix: Value


@dataclass(frozen=True, eq=False)
class TwoSided:
    """ℓ(w) = L w[index] R for a matrix of entries of w; a side that is None is the identity."""

    left: Value | None
    index: Tensor
    right: Value | None


@dataclass(frozen=True, eq=False)
class Combination:
    """Σ a∘ℓ(w) over several linear maps of one shape."""

    pieces: tuple[tuple[Value | None, Linear], ...]


Linear = Selection | Rows | TwoSided | Combination


def _range(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, device=like.device)


def same(one: Linear, other: Linear) -> bool:
    """Are two maps known to be the same?"""
    if one is other:
        return True
    if isinstance(one, Selection) and isinstance(other, Selection):
        return one.index.shape == other.index.shape and bool(torch.equal(one.index, other.index))
    return isinstance(one, Rows) and isinstance(other, Rows) and equal(one.matrix, other.matrix)


def equal(x: Value | None, y: Value | None) -> bool:
    """Are two values known to be the same?"""
    return x is y or (isinstance(x, Tensor) and isinstance(y, Tensor) and torch.equal(x, y))


def flat(x: Tensor, shape: torch.Size) -> Tensor:
    """A coefficient of numbers of this shape, one for each; a single number stays one."""
    return x.reshape(()) if x.numel() == 1 else x.expand(shape).reshape(-1)


def as_rows(stage: Stage, linear: Linear, shape: torch.Size, d: int, like: Tensor) -> Rows:
    """The map as a matrix, with a row for each entry of its value."""
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
    """The matrix F with Fw = A w[index]."""
    if index.numel() == d and torch.equal(index, _range(d, index)):
        return A

    def scattered(A: Tensor) -> Tensor:
        return torch.zeros(len(A), d, dtype=A.dtype, device=A.device).index_add(1, index, A)

    if example(A).shape[0] * d > MOST_NUMBERS:
        raise Unknown(f"a matrix of {example(A).shape[0]} × {d}")
    result: Value = stage.compute(scattered, A)
    return result

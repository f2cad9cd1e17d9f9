"""Affine maps of w or λ that are never formed as a matrix: entries of the input, or a matrix times such entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor

from boundcheck.numerics.program.enclosure.intervals import UP, Interval, around, euclidean
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.rounding_rules.ball import TINY, U, gamma

Move = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Affine:
    """z = s ∘ (X v[select])[place] + b, or z = s ∘ v[select] + b without X.

    Attributes
    ----------
    slot : str
        The input v: "w" or "lam".
    size : int
        The length of v.
    select : Tensor
        Indices of entries of v. With X, the shape is (p, c) and each entry occurs once; else it is the shape of z.
    scale, offset, slip : Tensor of the shape of z
        s and b as computed. The relative error of s is at most 1e-14, and the error of b at most `slip`.
    X : scipy sparse matrix or numpy array of shape (m, p), or None
        The matrix.
    place : Tensor of the shape of z, or None
        Indices of entries of X v[select], which has shape (m, c), flattened.
    """

    slot: str
    size: int
    select: Tensor
    scale: Tensor
    offset: Tensor
    slip: Tensor
    X: Any = None
    place: Tensor | None = None

    @classmethod
    def of_input(cls, slot: str, size: int) -> Affine:
        """Return the map z = v."""
        zeros = torch.zeros(size, dtype=torch.float64)
        return cls(slot, size, torch.arange(size), zeros + 1, zeros, zeros)

    @property
    def shape(self) -> torch.Size:
        return self.scale.shape

    def moved(self, move: Move) -> Affine:
        """Move, leave out or repeat entries."""
        scale, offset, slip = move(self.scale), move(self.offset), move(self.slip)
        if self.place is None:
            return replace(self, select=move(self.select), scale=scale, offset=offset, slip=slip)
        return replace(self, place=move(self.place), scale=scale, offset=offset, slip=slip)

    def scaled(self, factor: Tensor) -> Affine:
        """Multiply by numbers, with broadcasting."""
        shape = torch.broadcast_shapes(self.shape, factor.shape)  # type: ignore[no-untyped-call]
        wide = self.moved(lambda t: t.expand(shape))
        offset = wide.offset * factor
        slip = (wide.slip * factor.abs() + U * offset.abs()) * UP  # the factor may be a rounded reciprocal
        return replace(wide, scale=wide.scale * factor, offset=offset, slip=slip + U * offset.abs())

    def shifted(self, numbers: Tensor) -> Affine:
        """Add numbers, with broadcasting."""
        shape = torch.broadcast_shapes(self.shape, numbers.shape)  # type: ignore[no-untyped-call]
        wide = self.moved(lambda t: t.expand(shape))
        offset = wide.offset + numbers
        return replace(wide, offset=offset, slip=(wide.slip + 2 * U * offset.abs()) * UP)

    def multiplied(self, X: Any) -> Affine:
        """Return X z, for a z of shape (p,) or (p, c) whose entries are distinct entries of v."""
        plain = self.X is None and bool((self.scale == 1).all()) and not bool(self.offset.any())
        if not plain or int(torch.bincount(self.select.reshape(-1), minlength=1).max()) > 1:
            raise Declined("a matrix times a tensor that is more than entries of w")
        c = self.select.numel() // max(1, self.shape[0])
        shape = (X.shape[0], *self.shape[1:])
        place = torch.arange(X.shape[0] * c).reshape(shape)
        zeros = torch.zeros(shape, dtype=torch.float64)
        return Affine(self.slot, self.size, self.select.reshape(-1, c), zeros + 1, zeros, zeros, X, place)

    def times(self, v: Tensor) -> Tensor:
        """Return F v, where F is the linear part; b is not added."""
        if self.place is None:
            return self.scale * v[self.select]
        y = torch.from_numpy(np.ascontiguousarray(self.X @ v[self.select].numpy()))
        return self.scale * y.reshape(-1)[self.place]

    def transposed(self, u: Tensor) -> Tensor:
        """Return Fᵀu."""
        scaled, result = (self.scale * u).reshape(-1), torch.zeros(self.size, dtype=torch.float64)
        if self.place is None:
            return result.index_add(0, self.select.reshape(-1), scaled)
        c = self.select.shape[1]
        y = torch.zeros(self.X.shape[0] * c, dtype=torch.float64).index_add(0, self.place.reshape(-1), scaled)
        pulled = torch.from_numpy(np.ascontiguousarray(self.transpose @ y.reshape(-1, c).numpy()))
        result[self.select.reshape(-1)] = pulled.reshape(-1)
        return result

    @cached_property
    def transpose(self) -> Any:
        """Xᵀ, stored by rows."""
        return self.X.T.tocsr() if issparse(self.X) else self.X.T

    @cached_property
    def absolute(self) -> Affine:
        """The map |F|, without b."""
        zeros = torch.zeros_like(self.offset)
        positive = replace(self, scale=self.scale.abs(), offset=zeros, slip=zeros)
        return positive if self.X is None else replace(positive, X=abs(self.X))

    @cached_property
    def nonnegative(self) -> bool:
        """Whether F has no negative entry."""
        data = np.zeros(1) if self.X is None else self.X.data if issparse(self.X) else self.X
        return bool((self.scale >= 0).all()) and bool((np.asarray(data) >= 0).all() if np.size(data) else True)

    @property
    def terms(self) -> int:
        """An upper bound of the length of the sums in F v and Fᵀu."""
        return self.size + self.scale.numel()

    @cached_property
    def row_norms(self) -> Tensor:
        """Upper bounds of the norms of the rows of F."""
        if self.place is None:
            return self.scale.abs() * UP
        squares = self.X.multiply(self.X).sum(1) if issparse(self.X) else (self.X * self.X).sum(1)
        norms = torch.from_numpy(np.sqrt(np.asarray(squares, dtype=np.float64)).reshape(-1))
        return self.scale.abs() * norms[self.place // self.select.shape[1]] * (UP + gamma(self.X.shape[1] + 4)) + TINY

    @cached_property
    def block_norms(self) -> Tensor:
        """Upper bounds of the norms of the blocks of F, whose rows lie along the last axis of z.

        Rows that use different entries or columns of v are orthogonal. A block of such rows has the norm of its largest
        row.
        """
        place_of = self.select if self.place is None else self.place % self.select.shape[1]
        is_orthogonal = bool((place_of.sort(-1).values.diff(dim=-1) != 0).all())
        if is_orthogonal:
            return self.row_norms.amax(-1)
        return euclidean(self.row_norms, -1) * (UP + gamma(self.shape[-1]))

    def around(self, v: Tensor, radius: float) -> Interval:
        """Enclose z over a ball around v, including rounding."""
        middle = self.times(v)
        size = self.absolute.times(v.abs())
        rounding = (gamma(self.terms + 8) + 1e-12) * (size + self.offset.abs()) + TINY
        change = self.row_norms * radius if radius else torch.zeros_like(middle)
        return around(middle + self.offset, (rounding + self.slip + change) * (1 + 1e-12))

"""Products with ∂₁Φ at many points at once, with a matrix or by the problem's formula."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import Product
from boundcheck.numerics.bilevel.formulas import DataMatrix


class Products(Protocol):
    """The products ∂₁Φᵀv and ∂₁Φu for rows v and u."""

    def d1_T(self, v: Tensor) -> Tensor: ...
    def d1(self, u: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class ConstantJacobian:
    """∂₁Φ = J at all points of each λ; J has shape (λ, d, d)."""

    J: Tensor

    def d1_T(self, v: Tensor) -> Tensor:
        return v @ self.J

    def d1(self, u: Tensor) -> Tensor:
        return u @ self.J.mT


@dataclass(frozen=True, eq=False)
class Formula:
    """A symmetric ∂₁Φ by the formula of the problem.

    The formula works on columns, so it is fastest on rows in the layout of `as_columns`.
    """

    product: Product | DataMatrix

    def d1_T(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """Return ∂₁Φᵀv. The result is written to `out` if the formula supports this."""
        if out is not None and isinstance(self.product, DataMatrix):
            self.product(v.movedim(-1, 0), out.movedim(-1, 0))
            return out
        return self.product(v.movedim(-1, 0)).movedim(0, -1)

    d1 = d1_T

    @cached_property
    def remaining(self) -> DataMatrix | None:
        """I − ∂₁Φ, if ∂₁Φ is a `DataMatrix`."""
        return self.product.remaining() if isinstance(self.product, DataMatrix) else None


def as_columns(v: Tensor) -> Tensor:
    """Return the same rows in a memory layout with all first entries next to each other, then all second ones, …"""
    return v.movedim(-1, 0).contiguous().movedim(0, -1)


def transposed(jacobian: Products, v: Tensor, room: Tensor) -> Tensor:
    """Return ∂₁Φᵀv for rows v.

    The result may be written to `room`, which saves memory traffic. `room` has the layout of v and may be v itself.
    """
    return jacobian.d1_T(v, room) if isinstance(jacobian, Formula) else jacobian.d1_T(v)


def remaining(jacobian: Products, v: Tensor, room: Tensor) -> Tensor:
    """Return v − ∂₁Φᵀv for rows v, written to `room`, which has the layout of v and is not v."""
    if isinstance(jacobian, Formula) and jacobian.remaining is not None:
        jacobian.remaining(v.movedim(-1, 0), room.movedim(-1, 0))
        return room
    return torch.sub(v, jacobian.d1_T(v), out=room)

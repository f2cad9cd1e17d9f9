"""Optional formulas of a problem for derivatives of Φ and E, which are faster than autograd.

`D1`: (w, ready) ↦ (v ↦ ∂₁Φ(w)ᵀv), for columns. w and v have shape (d, …), and prepared tensors have the same axes after
their own. They have this layout in memory too, so that a product with data is one product of matrices. A `DataMatrix`
gives the structure of ∂₁Φ, which saves memory and time in the longest loops. A `OnePoint` takes single vectors only.
`D2`: (w, ready) ↦ (v ↦ ∂₂Φ(w)ᵀv), for one λ. w has shape (rows, d), v has shape (rows, vectors, d), and the result has
shape (rows, vectors, n). A `Diagonal` is for a λ with one entry for each entry of w and a diagonal ∂₂Φ; `FullMatrices`
contains ∂₂Φ itself; `OuterProducts` can be summed over the rows without forming each ∂₂Φ.
`D2Outer`: (w, ready) ↦ ∇₂E(w), for one λ, of shape (rows, n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.errors import InputError

D1 = Callable[[Tensor, Any], Callable[[Tensor], Tensor]]
D2 = Callable[[Tensor, Any], Callable[[Tensor], Tensor]]
D2Outer = Callable[[Tensor, Any], Tensor]


@dataclass(frozen=True, eq=False)
class OnePoint:
    """A formula for ∂₁Φᵀv at one point w and for one vector v. Batches use autograd."""

    formula: D1

    def __call__(self, w: Tensor, ready: Any) -> Callable[[Tensor], Tensor]:
        return self.formula(w, ready)


def for_columns(formula: D1 | None) -> D1 | None:
    """Return the formula if it accepts columns of points and vectors, otherwise None."""
    return None if isinstance(formula, OnePoint) else formula


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A diagonal matrix at each of several points: v ↦ entries∘v."""

    entries: Tensor  # (rows, d)

    def __call__(self, v: Tensor) -> Tensor:
        return v * self.entries[:, None]


@dataclass(frozen=True, eq=False)
class FullMatrices:
    """∂₂Φ(w)ᵀ at each of several points."""

    entries: Tensor  # (rows, n, d)

    def __call__(self, v: Tensor) -> Tensor:
        return v @ self.entries.mT


@dataclass(frozen=True, eq=False)
class OuterProducts:
    """∂₂Φ for a matrix λ: ∂₂Φ(w)ᵀv = evᵀ + c(v)wᵀ with a vector e that depends on w, and a linear map c."""

    e: Tensor  # (rows, first axis of λ)
    w: Tensor  # (rows, d)
    c: Callable[[Tensor], Tensor]  # from (…, d) to (…, first axis of λ)

    def __call__(self, v: Tensor) -> Tensor:
        c = self.c(v)
        left = torch.stack((self.e[:, None].expand_as(c), c), dim=-1)
        right = torch.stack((v, self.w[:, None].expand_as(v)), dim=-2)
        return (left @ right).flatten(-2)

    def summed(self, v: Tensor) -> Tensor:
        """Return the sum over the rows, of shape (vectors, n), for v of shape (vectors, rows, d)."""
        w = self.w.expand(len(v), -1, -1)
        return torch.baddbmm(self.e.mT @ v, self.c(v).mT, w).flatten(1)


def summed(d2: Callable[[Tensor], Tensor], v: Tensor) -> Tensor:
    """Return Σ ∂₂Φ(w)ᵀv over rows w and v, of shape (n,)."""
    return d2.summed(v[None])[0] if isinstance(d2, OuterProducts) else d2(v[:, None]).sum(dim=(0, 1))


@dataclass(frozen=True, eq=False)
class DataMatrix:
    """The matrix diag(diagonal) + Uᵀdiag(weight)U of each column: ∂₁Φ for a sum over data and a ridge."""

    U: Tensor  # (data, d), or with the axes of the columns after these
    weight: Tensor  # (data, axes of the columns), or without the first axis, or one number
    diagonal: Tensor  # (d, axes of the columns), or without the first axis, or one number

    def __call__(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the product with columns v. It is written to `out` if given, which is contiguous and may be v."""
        if v.dim() == 1:
            return torch.addmv(self.diagonal * v, self.U.T, torch.mv(self.U, v).mul_(self.weight))
        for name, x in (("weight", self.weight), ("diagonal", self.diagonal)):
            if x.dim() not in (0, v.dim() - 1, v.dim()):
                raise InputError(
                    f"DataMatrix: {name} has shape {tuple(x.shape)} for columns of shape {tuple(v.shape)}; "
                    "give it their axes behind its own, of length 1 where they share it"
                )
        v = v.contiguous()
        if self.U.dim() > 2:
            inner = torch.einsum("md...,d...->m...", self.U, v).mul_(self.weight)
            return torch.add(v * self.diagonal, torch.einsum("md...,m...->d...", self.U, inner), out=out)
        inner = torch.mm(self.U, v.view(len(v), -1))
        inner.view(-1, *v.shape[1:]).mul_(self.weight)
        out = torch.mul(v, self.diagonal, out=out)
        out.view(len(v), -1).addmm_(self.U.T, inner)
        return out

    def spread(self) -> DataMatrix:
        """Return the same matrices with a copy of `diagonal` for every column: faster if few columns share it."""
        if self.weight.dim() != self.diagonal.dim() or self.weight.shape[1:] == self.diagonal.shape[1:]:
            return self
        return DataMatrix(self.U, self.weight, self.diagonal.expand(-1, *self.weight.shape[1:]).contiguous())

    def remaining(self) -> DataMatrix:
        """Return I minus these matrices."""
        return DataMatrix(self.U, -self.weight, 1 - self.diagonal)

    def column(self, i: int) -> DataMatrix:
        """Return the matrices of the i-th columns along the last axis of `weight`; the other parts are shared."""
        shared = self.weight.dim() == 0 or self.weight.shape[-1] == 1
        return self if shared else DataMatrix(self.U, self.weight[..., i : i + 1], self.diagonal)

    def points(self, count: int) -> list[DataMatrix]:
        """Return the matrix at each of several points, for single vectors."""
        U = self.U if self.U.dim() == 2 else self.U[..., 0]
        weights, diagonal = (_each(x, count) for x in (self.weight, self.diagonal))
        return [DataMatrix(U, *each) for each in zip(weights, diagonal, strict=True)]

    def matrices(self) -> Tensor:
        """Return the matrix of each column, of shape (…, d, d), for a shared U, and other parts with all axes."""
        product: Tensor = (self.U.T * self.weight.movedim(0, -1).unsqueeze(-2)) @ self.U
        product.diagonal(dim1=-2, dim2=-1).add_(self.diagonal.movedim(0, -1))
        return product

    @property
    def isotropic(self) -> bool:
        """Whether this is diagonal·I + weight·UᵀU with two numbers, for one column."""
        return self.U.dim() == 2 and self.weight.dim() == self.diagonal.dim() == 0


def _each(x: Tensor, count: int) -> Sequence[Tensor]:
    """Split `weight` or `diagonal` along its last axis, the points."""
    if x.dim() == 0 or x.shape[-1] == 1:
        return [x if x.dim() == 0 else x[..., 0]] * count
    return x.movedim(-1, 0).contiguous().unbind()

"""Formulas that a problem may give beside Φ and E, where they are quicker than autograd.

`D1`: (w, ready) ↦ (v ↦ ∂₁Φ(w)ᵀv), for columns: w and v are of shape (d, …), what was prepared has the same axes behind
its own. They are laid out in memory like that too, so that a product with data is one product of matrices. A
`DataMatrix` says what ∂₁Φ is made of, and saves memory and time in the longest loops.
A `OnePoint` takes single vectors only.
`D2`: (w, ready) ↦ (v ↦ ∂₂Φ(w)ᵀv), for one λ: w of shape (rows, d), v of shape (rows, vectors, d), and the result
(rows, vectors, n). A `Diagonal` says that λ has an entry for each of w, and that no two mix; `FullMatrices` hold
∂₂Φ as it is; `OuterProducts` can be summed over the rows without being formed for each.
`D2Outer`: (w, ready) ↦ ∇₂E(w), for one λ: (rows, n).
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
    """A formula for ∂₁Φᵀv at one point w and for one vector v at a time; batches of them are left to autograd."""

    formula: D1

    def __call__(self, w: Tensor, ready: Any) -> Callable[[Tensor], Tensor]:
        return self.formula(w, ready)


def for_columns(formula: D1 | None) -> D1 | None:
    """The formula, if it takes columns of points and vectors."""
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
    """λ is a matrix, and so is ∂₂Φ(w)ᵀv = evᵀ + c(v)wᵀ, for e that depends on w, and a linear c."""

    e: Tensor  # (rows, first axis of λ)
    w: Tensor  # (rows, d)
    c: Callable[[Tensor], Tensor]  # from (…, d) to (…, first axis of λ)

    def __call__(self, v: Tensor) -> Tensor:
        c = self.c(v)
        left = torch.stack((self.e[:, None].expand_as(c), c), dim=-1)
        right = torch.stack((v, self.w[:, None].expand_as(v)), dim=-2)
        return (left @ right).flatten(-2)

    def summed(self, v: Tensor) -> Tensor:
        """The sum over the rows, for v of shape (vectors, rows, d): of shape (vectors, n)."""
        w = self.w.expand(len(v), -1, -1)
        return torch.baddbmm(self.e.mT @ v, self.c(v).mT, w).flatten(1)


def summed(d2: Callable[[Tensor], Tensor], v: Tensor) -> Tensor:
    """Σ ∂₂Φ(w)ᵀv over rows w and v, a vector for each: of shape (n,)."""
    return d2.summed(v[None])[0] if isinstance(d2, OuterProducts) else d2(v[:, None]).sum(dim=(0, 1))


@dataclass(frozen=True, eq=False)
class DataMatrix:
    """diag(diagonal) + Uᵀdiag(weight)U for each of several columns: a gradient step on a sum over data with a ridge."""

    U: Tensor  # (data, d), or with the axes of the columns behind
    weight: Tensor  # (data, axes of the columns), or without the first axis, or one number
    diagonal: Tensor  # (d, axes of the columns), or without the first axis, or one number

    def __call__(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """The product with columns v; in `out`, if given, which is contiguous and may be v."""
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
        """The same with a copy of `diagonal` for every column, which is quicker if few columns share it."""
        if self.weight.dim() != self.diagonal.dim() or self.weight.shape[1:] == self.diagonal.shape[1:]:
            return self
        return DataMatrix(self.U, self.weight, self.diagonal.expand(-1, *self.weight.shape[1:]).contiguous())

    def remaining(self) -> DataMatrix:
        """I less it."""
        return DataMatrix(self.U, -self.weight, 1 - self.diagonal)

    def column(self, i: int) -> DataMatrix:
        """The matrices of the i-th columns along the last axis, where `weight` has it and the rest is shared."""
        shared = self.weight.dim() == 0 or self.weight.shape[-1] == 1
        return self if shared else DataMatrix(self.U, self.weight[..., i : i + 1], self.diagonal)

    def points(self, count: int) -> list[DataMatrix]:
        """The matrix at each of several points, for single vectors."""
        U = self.U if self.U.dim() == 2 else self.U[..., 0]
        weights, diagonal = (_each(x, count) for x in (self.weight, self.diagonal))
        return [DataMatrix(U, *each) for each in zip(weights, diagonal, strict=True)]

    def matrices(self) -> Tensor:
        """The matrix of each column, of shape (…, d, d), for a shared U where `weight`, `diagonal` have all axes."""
        product: Tensor = (self.U.T * self.weight.movedim(0, -1).unsqueeze(-2)) @ self.U
        product.diagonal(dim1=-2, dim2=-1).add_(self.diagonal.movedim(0, -1))
        return product

    @property
    def isotropic(self) -> bool:
        """Is it diagonal·I + weight·UᵀU with two numbers, for one column?"""
        return self.U.dim() == 2 and self.weight.dim() == self.diagonal.dim() == 0


def _each(x: Tensor, count: int) -> Sequence[Tensor]:
    """`weight` or `diagonal` at each of several points, which are the last axis."""
    if x.dim() == 0 or x.shape[-1] == 1:
        return [x if x.dim() == 0 else x[..., 0]] * count
    return x.movedim(-1, 0).contiguous().unbind()

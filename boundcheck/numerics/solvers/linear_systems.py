"""Direct solves with A = I − ∂₁Φ, one matrix for each λ: dense, or as a diagonal plus a product of few data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.formulas import DataMatrix

PIVOT = 4  # a pivot below this times √d units of rounding counts as 0
REFINED = 2  # number of residual corrections, because Woodbury's identity loses more digits than dense pivots


class System(Protocol):
    """The matrices A of several rows."""

    def solve(self, b: Tensor) -> Tensor:
        """Return A⁻¹b for rows b; not finite if A is singular."""
        ...

    def solve_T(self, b: Tensor) -> Tensor:
        """Return A⁻ᵀb for rows b, with corrections for the residual."""
        ...

    def product_T(self, v: Tensor) -> Tensor:
        """Return Aᵀv for rows v."""
        ...

    def is_singular(self) -> bool:
        """Return whether some A is singular up to rounding, so that its solutions are meaningless."""
        ...


@dataclass(frozen=True, eq=False)
class Dense:
    """Dense matrices A, of shape (rows, d, d)."""

    A: Tensor

    def solve(self, b: Tensor) -> Tensor:
        x: Tensor = torch.linalg.solve_ex(self.A, b)[0]
        return x

    def solve_T(self, b: Tensor) -> Tensor:
        factors = torch.linalg.lu_factor_ex(self.A.mT)[:2]
        v: Tensor = torch.linalg.lu_solve(*factors, b[..., None])[..., 0]
        v += torch.linalg.lu_solve(*factors, (b - self.product_T(v))[..., None])[..., 0]
        return v

    def product_T(self, v: Tensor) -> Tensor:
        return (self.A.mT @ v[..., None])[..., 0]

    def is_singular(self) -> bool:
        """Return whether a pivot is at most the rounding of A = I − ∂₁Φ, which has the size of I or of ∂₁Φ."""
        pivots = torch.linalg.lu_factor_ex(self.A)[0].diagonal(dim1=-2, dim2=-1).abs()
        rounding = PIVOT * self.A.shape[-1] ** 0.5 * torch.finfo(self.A.dtype).eps
        return not bool((pivots.amin(-1) > rounding * self.A.abs().amax((-2, -1)).clamp(min=1)).all())


def is_few(U: Tensor) -> bool:
    """Return whether data U have so few rows that `FewData` is faster than `Dense`."""
    return 2 * len(U) <= U.shape[1]


class FewData:
    """Matrices A = diag(a) + Uᵀdiag(c)U. U has fewer rows than a has entries, and no entry of a is tiny.

    By Woodbury's identity, A⁻¹b = y − diag(a)⁻¹Uᵀ(I + diag(c)U diag(a)⁻¹Uᵀ)⁻¹diag(c)Uy with y = diag(a)⁻¹b.
    """

    def __init__(self, U: Tensor, c: Tensor, a: Tensor) -> None:
        self.U, self.c, self.a = U, c, a  # (1 or rows, data, d), (rows, data), (rows, d)
        core = c[..., None] * ((U / a[:, None]) @ U.mT)
        core.diagonal(dim1=-2, dim2=-1).add_(1)
        self._factors = torch.linalg.lu_factor_ex(core)[:2]

    @classmethod
    def of(cls, d1phi: object, rows: int) -> FewData | None:
        """Return I − ∂₁Φ from the formula's result for columns (d, rows, 1); None if it has another form."""
        if not isinstance(d1phi, DataMatrix) or not is_few(d1phi.U):
            return None
        A = d1phi.remaining()
        if not bool(
            (A.diagonal > torch.finfo(A.diagonal.dtype).eps ** 0.5).all()
        ):  # the corrections would not be enough
            return None
        U = A.U[None] if A.U.dim() == 2 else A.U[..., 0].movedim(-1, 0)
        data, d = U.shape[1:]
        return cls(U, _rows(A.weight, rows, data), _rows(A.diagonal, rows, d))

    def solve(self, b: Tensor) -> Tensor:
        x = self._inverse(b)
        for _ in range(REFINED):
            x = x + self._inverse(b - self.product_T(x))
        return x

    solve_T = solve

    def is_singular(self) -> bool:
        if bool((self.c >= 0).all()):  # no entry of `a` is tiny, and the data only add to them
            return False
        pivots = self._factors[0].diagonal(dim1=-2, dim2=-1).abs()
        rounding = PIVOT * pivots.shape[-1] ** 0.5 * torch.finfo(pivots.dtype).eps
        return not bool((pivots.amin(-1) > rounding * pivots.amax(-1)).all())

    def product_T(self, v: Tensor) -> Tensor:
        return self.a * v + _product(self.U.mT, self.c * _product(self.U, v))

    def _inverse(self, b: Tensor) -> Tensor:
        y = b / self.a
        z: Tensor = torch.linalg.lu_solve(*self._factors, (self.c * _product(self.U, y))[..., None])[..., 0]
        return y - _product(self.U.mT, z) / self.a


def _product(U: Tensor, v: Tensor) -> Tensor:
    """Return Uv for each row v, with one U for all rows or one for each."""
    return v @ U[0].mT if len(U) == 1 else (U @ v[..., None])[..., 0]


def _rows(x: Tensor, rows: int, size: int) -> Tensor:
    """Return `weight` or `diagonal` of a `DataMatrix` for columns (size, rows, 1) in shape (rows, size)."""
    x = x[..., 0] if x.dim() > 1 else x
    return (x.mT if x.dim() == 2 else x[..., None]).expand(rows, size)

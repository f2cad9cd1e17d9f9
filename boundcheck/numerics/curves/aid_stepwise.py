"""FP, CG and CG on the normal equations, step by step on all rows of a block. Each row is a separate system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from boundcheck.numerics.curves.jacobian import Products, remaining, transposed
from boundcheck.numerics.solvers.conjugate_gradient import SPENT, not_definite


class SolverRows(Protocol):
    """An iteration on all rows of a block."""

    v: Tensor

    def step(self, jacobian: Products) -> None: ...
    def drop(self, count: int) -> None: ...
    def spent(self) -> bool: ...
    def finish(self) -> None: ...


class FixedPointSolver:
    """The iteration v ← ∂₁Φᵀv + b."""

    def __init__(self, b: Tensor) -> None:
        self.b, self.v = b, torch.zeros_like(b)

    def step(self, jacobian: Products) -> None:
        self.v = transposed(jacobian, self.v, self.v).add_(self.b)

    def drop(self, count: int) -> None:
        self.b, self.v = self.b[:, count:].clone(), self.v[:, count:].clone()

    def spent(self) -> bool:
        return False

    def finish(self) -> None:
        pass


class ConjugateGradient:
    """CG as in numerics/solvers/conjugate_gradient.py. A row stops when `rr` = ‖r‖² is at most its `floor`."""

    def __init__(self, v: Tensor, r: Tensor, p: Tensor, rr: Tensor, floor: Tensor) -> None:
        self.v, self.r, self.p, self.rr, self.floor = v, r, p, rr, floor
        self._Ap, self._product = torch.empty_like(p), torch.empty_like(p)
        self._along: list[Tensor] = []  # pᵀAp of each step; infinite for rows that have stopped

    @classmethod
    def start(cls, b: Tensor) -> ConjugateGradient:
        rr = torch.linalg.vecdot(b, b)[..., None]
        return cls(torch.zeros_like(b), b.clone(), b.clone(), rr, SPENT * torch.finfo(b.dtype).eps ** 2 * rr)

    def spent(self) -> bool:
        return not bool((self.rr > self.floor).any())

    @property
    def least(self) -> Tensor:
        """The smallest pᵀAp over all rows and steps. If it is not positive, A is not positive definite."""
        along = torch.cat([self.rr.new_full((1,), torch.inf), *(x.flatten() for x in self._along)])
        return torch.where(torch.isfinite(along), along, torch.inf).min()

    def finish(self) -> None:
        if bool((least := self.least) <= 0):
            raise not_definite(float(least), "pᵀ(I − ∂₁Φᵀ)p")

    def step(self, jacobian: Products) -> None:
        Ap = remaining(jacobian, self.p, self._Ap)
        going, pAp = self.rr > self.floor, self._dot(self.p, Ap)
        self._along.append(torch.where(going, pAp, torch.inf))
        step = torch.where(going, self.rr / pAp, 0)
        self.v.addcmul_(step, self.p)
        self.r.addcmul_(step, Ap, value=-1)
        rr = self._dot(self.r, self.r)
        torch.addcmul(self.r, self.p, torch.where(going, rr / self.rr, 0), out=self.p)
        self.rr = rr

    def _dot(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.mul(x, y, out=self._product).sum(dim=-1, keepdim=True)

    def drop(self, count: int) -> None:
        for name in ("v", "r", "p", "rr", "floor"):
            setattr(self, name, getattr(self, name)[:, count:].clone())  # in the same layout
        self._Ap, self._product = torch.empty_like(self.p), torch.empty_like(self.p)


class NormalEquations:
    """CG on the normal equations as in numerics/solvers/normal_equations.py, with one system in each row."""

    def __init__(self, b: Tensor) -> None:
        self.v, self.r = torch.zeros_like(b), b.clone()
        self.p = self.ss = self.floor = b.new_empty(0)

    def step(self, jacobian: Products) -> None:
        if not self.p.numel():
            self.p = self.r - jacobian.d1(self.r)
            self.ss = torch.linalg.vecdot(self.p, self.p)[..., None]
            self.floor = SPENT * torch.finfo(self.p.dtype).eps ** 2 * self.ss
        Ap = jacobian.d1_T(self.p)
        torch.sub(self.p, Ap, out=Ap)
        going = self.ss > self.floor
        step = torch.where(going, self.ss / torch.linalg.vecdot(Ap, Ap)[..., None], 0)
        self.v.addcmul_(step, self.p)
        self.r.addcmul_(step, Ap, value=-1)
        s = self.r - jacobian.d1(self.r)
        ss = torch.linalg.vecdot(s, s)[..., None]
        self.p.mul_(torch.where(going, ss / self.ss, 0)).add_(s)
        self.ss = ss

    def drop(self, count: int) -> None:
        for name in ("v", "r", "p", "ss", "floor"):
            setattr(self, name, getattr(self, name)[:, count:].clone())

    def spent(self) -> bool:
        return not bool((self.ss > self.floor).any())

    def finish(self) -> None:
        pass


SOLVERS: dict[str, Callable[[Tensor], SolverRows]] = {
    "aid-fp": FixedPointSolver,
    "aid-cg": ConjugateGradient.start,
    "aid-cgn": NormalEquations,
}

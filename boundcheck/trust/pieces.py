"""The parts of a hypergradient at one point: ∇₂E + ∂₂Φᵀv with (I − ∂₁Φᵀ)v = ∇₁E."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.numerics.bilevel.derivatives import DENSE, LamLinearisation, jacobian, linearise, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.linear_systems import Dense
from boundcheck.numerics.solvers.reference import krylov, reference_at

LEFT_OVER = 4  # the relative residual of a matrix-free solve, in rounding units
NUMBERS = 4_000_000  # the largest number of matrix entries that are formed at once


class Pieces:
    """The parts of the hypergradient at w: `direct` is ∇₂E and `implicit` is ∂₂Φᵀv; by default v is exact."""

    def __init__(self, problem: Problem, w: Tensor, v: Tensor | None = None) -> None:
        self.problem, self.w = problem, w
        self.prepared = Prepared(problem, problem.lam)
        self.linearised = linearise(problem, w, self.prepared)
        outer = outer_gradients(problem, w, self.prepared.leaves)
        self.b, self.direct = outer.w, self.prepared.pull_back(outer.lam)
        self.v = self.solve_T(self.b) if v is None else v
        self.implicit = self.pulled(self.v)

    @property
    def value(self) -> Tensor:
        """∇₂E + ∂₂Φᵀv."""
        return self.direct + self.implicit

    def pulled(self, v: Tensor) -> Tensor:
        """∂₂Φᵀv for any v."""
        return self.prepared.pull_back(self.linearised.d2_T(v))

    def residual(self, v: Tensor) -> float:
        """‖(I − ∂₁Φᵀ)v − ∇₁E‖ for any v."""
        return float((v - self.linearised.d1_T(v) - self.b).norm())

    @cached_property
    def _dense(self) -> Dense | None:
        if self.problem.d > DENSE:
            return None
        eye = torch.eye(self.problem.d, dtype=self.w.dtype, device=self.w.device)
        return Dense((eye - jacobian(lambda w: self.problem.phi_at(w, self.prepared.ready), self.w))[None])

    def solve_T(self, b: Tensor) -> Tensor:
        """(I − ∂₁Φᵀ)⁻¹b."""
        return self._krylov(b, transposed=True) if self._dense is None else self._dense.solve_T(b[None])[0]

    def solve(self, b: Tensor) -> Tensor:
        """(I − ∂₁Φ)⁻¹b."""
        return self._krylov(b, transposed=False) if self._dense is None else self._dense.solve(b[None])[0]

    def _krylov(self, b: Tensor, *, transposed: bool) -> Tensor:
        tol = LEFT_OVER * torch.finfo(b.dtype).eps
        return krylov(self.problem, self.linearised, b, tol, transposed=transposed)

    def d2phi(self, u: Tensor) -> Tensor:
        """∂₂Φ u for a direction u of λ."""
        one = Prepared(self.problem, self.problem.lam[None])
        along = one.along(u[None])
        return LamLinearisation(self.problem.phi_at, self.w[None, None], one.leaves).d2(along)[0, 0]


def exact_at(problem: Problem, w: Tensor) -> Tensor:
    """The hypergradient at each row of w instead of w*, with an exact linear solve; of shape (rows, n)."""
    if problem.d > DENSE:
        return torch.stack([Pieces(problem, row).value for row in w])
    values = []
    at_once = max(1, NUMBERS // problem.d**2)
    for rows in (w[i : i + at_once] for i in range(0, len(w), at_once)):
        prepared = Prepared(problem, problem.lam.repeat(len(rows), 1))
        eye = torch.eye(problem.d, dtype=w.dtype, device=w.device)
        Y = vmap(lambda w, ready: jacobian(lambda x: problem.phi_at(x, ready), w))(rows, prepared.ready)
        values.append(reference_at(problem, prepared, rows, Dense(eye - Y)).value)
    return torch.cat(values)

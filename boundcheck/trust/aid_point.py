"""AID at a point (w, v), and a better point after it.

A better w comes from one inexact Newton step by conjugate gradient where ∂₁Φ is symmetric and I − ∂₁Φ definite, and
from further steps of the lower level otherwise. A better v comes from further steps of the linear solver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.errors import AssumptionError, InputError
from boundcheck.numerics.bilevel.derivatives import Linearisation, linearise, outer_gradients
from boundcheck.numerics.bilevel.dynamics import FIXED_POINT
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers import conjugate_gradient, lower_level
from boundcheck.numerics.solvers.hypergradient import solve
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.numerics.solvers.result import LinearSolution

PRODUCTS = {"aid-cg": 1, "aid-fp": 1, "aid-cgn": 2}  # of a step of the linear solver
PROMISED = 0.5  # the part of the residual that a Newton step may leave; the linear model says tol


class Work(NamedTuple):
    """What was spent so far: evaluations of Φ and products with its derivatives."""

    t: int = 0  # for the lower level
    k: int = 0  # for the linear system
    lam: int = 0  # products with ∂₂Φᵀ

    def plus(self, *, t: int = 0, k: int = 0, lam: int = 0) -> Work:
        """This and more."""
        return Work(self.t + t, self.k + k, self.lam + lam)

    @property
    def products(self) -> int:
        """All of it."""
        return self.t + self.k + self.lam


@dataclass(frozen=True, eq=False)
class AidPoint:
    """The hypergradient ∇₂E(w) + ∂₂Φ(w)ᵀv, with the residuals of w and v."""

    w: Tensor
    v: Tensor
    value: Tensor
    excess: Tensor  # w − Φ(w)
    b: Tensor  # ∇₁E
    direct: Tensor  # ∇₂E
    linearisation: Linearisation
    work: Work

    @cached_property
    def residual_v(self) -> Tensor:
        """(I − ∂₁Φᵀ)v − ∇₁E."""
        return self.v - self.linearisation.d1_T(self.v) - self.b

    @property
    def linear_residual(self) -> float:
        """‖(I − ∂₁Φᵀ)v − ∇₁E‖/‖∇₁E‖; 0 where there is nothing to solve."""
        size = float(lower_level.length(self.b))
        return float(lower_level.length(self.residual_v)) / size if size > 0 else 0.0

    def as_solution(self) -> ReferenceSolution:
        """The point in the form in which references are certified."""
        parts = (self.value, self.w, self.v, self.excess.norm(), self.residual_v.norm())
        return ReferenceSolution(*(x.detach()[None] for x in parts))


@dataclass(frozen=True, eq=False)
class Solvers:
    """A problem at one λ, and the limits of its solvers."""

    problem: Problem
    prepared: Prepared
    method: str  # of the linear system: "aid-cg", "aid-fp" or "aid-cgn"
    most: int  # steps of one solve
    newton: bool = True  # may the lower level take Newton steps?

    def at(self, w: Tensor, v: Tensor | None, tol: float, work: Work) -> AidPoint:
        """AID at w, from the start v, to a residual of tol‖∇₁E(w)‖."""
        linearised = linearise(self.problem, w, self.prepared)
        outer = outer_gradients(self.problem, w, self.prepared.leaves)
        solved = self._solve(linearised, outer.w, v, tol)
        total = tuple(a + b for a, b in zip(outer.lam, linearised.d2_T(solved.v), strict=True))
        value = self.prepared.pull_back(total)
        spent = work.plus(t=1, k=PRODUCTS[self.method] * solved.k + 1, lam=1)  # 1 for the residual
        direct = self.prepared.pull_back(outer.lam)
        return AidPoint(w, solved.v, value, w - linearised.y.detach(), outer.w, direct, linearised, spent)

    def _solve(self, linearised: Linearisation, b: Tensor, v: Tensor | None, tol: float) -> LinearSolution:
        if not bool((b != 0).any()):  # nothing depends on w here, and a relative tolerance asks for nothing
            return LinearSolution(torch.zeros_like(b), 0)
        if not 0 < float(b @ b) < math.inf:
            raise InputError(
                f"{self.problem.name}: ‖∇₁E‖ = {float(lower_level.length(b)):.1e} is too small or too large for "
                f"{str(b.dtype).removeprefix('torch.')}; scale outer_loss"
            )
        return solve(self.method, linearised, b, self.most, v, tol)

    def linear_part(self, point: AidPoint, tol: float) -> tuple[Tensor, Work]:
        """∂₂Φᵀ(I − ∂₁Φᵀ)⁻¹r_v: what the linear solver adds to the error of the point, to first order."""
        if not bool(point.residual_v.norm() > 0):
            return torch.zeros_like(point.value), point.work
        solved = self._solve(point.linearisation, point.residual_v, None, tol)
        part = self.prepared.pull_back(point.linearisation.d2_T(solved.v))
        return part, point.work.plus(k=PRODUCTS[self.method] * solved.k, lam=1)

    def better_w(self, point: AidPoint, tol: float) -> tuple[Tensor, Work]:
        """A w whose residual is smaller by about the factor tol."""
        if self.method == "aid-cg" and self.newton:
            newton = self._newton(point, tol)
            if newton is not None:
                return newton
        return self._plain(point, tol)

    def _newton(self, point: AidPoint, tol: float) -> tuple[Tensor, Work] | None:
        """An inexact Newton step, if it lowers the residual as it promises; None if it does not."""
        try:
            solved = conjugate_gradient.solve(point.linearisation.d1_T, point.excess, self.most, None, tol)
        except AssumptionError:  # not definite here
            return None
        w, before = point.w - solved.v, float(point.excess.norm())
        after = float(lower_level.residual(self.problem, self.prepared.ready, w))
        # `at` evaluates Φ there again, and counts it. A step that brings less than the linear model says may lead to
        # the neighbourhood of another fixed point.
        return (w, point.work.plus(t=solved.k)) if after <= PROMISED * before else None

    def _plain(self, point: AidPoint, tol: float) -> tuple[Tensor, Work]:
        """Steps of the lower level until they have become shorter by the factor tol."""
        dynamics, step = self.problem.dynamics, lower_level.step_of(self.problem)
        plain = dynamics.step is FIXED_POINT.step  # then Φ(w) is the first step, and known
        w, first = (point.w - point.excess if plain else point.w), float(point.excess.norm())
        z, count = dynamics.start(w), 0
        with torch.no_grad():
            while count < self.most:
                z, count = step(z, self.prepared.ready), count + 1
                w_before, w = w, dynamics.iterate(z)
                length = float((w - w_before).norm())
                if not length > tol * first:
                    break
        return w, point.work.plus(t=count)

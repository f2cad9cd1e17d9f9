"""AID at a point (w, v), and improvements of the point.

If ∂₁Φ is symmetric and I − ∂₁Φ definite, w is improved by one inexact Newton step with conjugate gradient; otherwise by
further steps of the lower level. v is improved by further steps of the linear solver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
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
from boundcheck.numerics.solvers.krylov_error import KrylovError, Spectrum
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.numerics.solvers.result import LinearSolution

PRODUCTS = {"aid-cg": 1, "aid-fp": 1, "aid-cgn": 2}  # products in a step of the linear solver
# products before the first step, for the first residual from v = 0; the first step of aid-fp is free
BEFORE = {"aid-cg": 0, "aid-fp": -1, "aid-cgn": 1}
FROM_START = {"aid-cg": 1, "aid-fp": 0, "aid-cgn": 2}  # products for the first residual from another v
TRIAL = 2  # products that test whether ∂₁Φ is symmetric
NO_NEARER = 0.9  # a solver works in vain if all its steps leave more than this fraction of the residual
LEFT = 0.3  # the next point may have at most this fraction of the error of a point, in order to show that error
SMALL = 0.1  # a random vector's part in a direction is below this fraction of its mean in 8 % of all cases
PROMISED = 0.5  # a Newton step may leave at most this fraction of the residual; the linear model predicts tol


class Work(NamedTuple):
    """The work so far: evaluations of Φ and products with its derivatives."""

    t: int = 0  # for the lower level
    k: int = 0  # for the linear system
    lam: int = 0  # products with ∂₂Φᵀ; the same backward pass gives the product with ∂₁Φᵀ
    again: int = 0  # evaluations of Φ that only test whether it returns the same value twice

    def plus(self, *, t: int = 0, k: int = 0, lam: int = 0) -> Work:
        """The sum of this work and further work."""
        return Work(self.t + t, self.k + k, self.lam + lam, self.again)

    @property
    def products(self) -> int:
        """The total number of evaluations and products."""
        return sum(self)


@dataclass(frozen=True, eq=False)
class Iterate:
    """A point w, with the linearisation of Φ and the residual at w."""

    w: Tensor
    excess: Tensor  # w − Φ(w)
    linearisation: Linearisation
    work: Work
    rate: float  # the factor by which the last steps of Φ became shorter; 1 if unknown
    error_w: float  # an estimate of ‖w − w(λ)‖; infinite if unknown


@dataclass(frozen=True, eq=False)
class AidPoint(Iterate):
    """The hypergradient ∇₂E(w) + ∂₂Φ(w)ᵀv, with the residuals of w and v."""

    v: Tensor
    value: Tensor
    b: Tensor  # ∇₁E
    direct: Tensor  # ∇₂E
    residual_v: Tensor  # (I − ∂₁Φᵀ)v − ∇₁E
    error_v: float  # an estimate of the error of v; infinite if unknown

    @property
    def linear_residual(self) -> float:
        """‖(I − ∂₁Φᵀ)v − ∇₁E‖/‖∇₁E‖; 0 if ∇₁E = 0."""
        size = float(lower_level.length(self.b))
        return float(lower_level.length(self.residual_v)) / size if size > 0 else 0.0

    def as_solution(self) -> ReferenceSolution:
        """The point as a `ReferenceSolution`, for the functions that certify references."""
        parts = (self.value, self.w, self.v, self.excess.norm(), self.residual_v.norm())
        return ReferenceSolution(*(x.detach()[None] for x in parts))


@dataclass(frozen=True, eq=False)
class Solvers:
    """A problem at one λ, and the limits of its solvers."""

    problem: Problem
    prepared: Prepared
    method: str  # the linear solver: "aid-cg", "aid-fp" or "aid-cgn"
    most: int  # the largest number of steps of one solve
    newton: bool = True  # whether the lower level may take Newton steps
    spectrum: Spectrum = field(default_factory=Spectrum)

    def iterate(self, w: Tensor, work: Work, rate: float = 1.0) -> Iterate:
        """Evaluate and linearise Φ at w."""
        linearised = linearise(self.problem, w, self.prepared)
        return Iterate(w, w - linearised.y.detach(), linearised, work.plus(t=1), rate, math.inf)

    def point(self, current: Iterate, v: Tensor | None, tol: float, *, known: bool = False) -> AidPoint:
        """AID at a w, from the start v, to a residual of tol‖∇₁E(w)‖; with `known`, also to a small error of v."""
        outer = outer_gradients(self.problem, current.w, self.prepared.leaves)

        def most(x: Tensor) -> float:
            if not known:
                return math.inf
            change = x if v is None else x - v
            return max(tol * float(lower_level.length(x)), LEFT * float(lower_level.length(change)))

        current = self._with_symmetry(current)
        error = KrylovError(self.spectrum, most, normal=self.method == "aid-cgn")
        solved = self._solve(current, outer.w, v, tol, error)
        by_w, by_lam = current.linearisation.transposed(solved.v, last=False)
        value = self.prepared.pull_back(tuple(a + b for a, b in zip(outer.lam, by_lam, strict=True)))
        direct = self.prepared.pull_back(outer.lam)
        residual_v = solved.v - by_w - outer.w
        spent = current.work.plus(k=self._products(solved, v), lam=1)
        of_w = current.w, current.excess, current.linearisation, spent, current.rate, current.error_w
        return AidPoint(*of_w, solved.v, value, outer.w, direct, residual_v, error.error)

    def after(self, point: AidPoint, current: Iterate, tol: float) -> AidPoint:
        """AID at the next w, from the v of the point; for aid-fp the residual of v gives one step for free."""
        start = point.v - point.residual_v if self.method == "aid-fp" else point.v
        return self.point(current, start, tol, known=True)

    def probed(self, point: AidPoint) -> AidPoint:
        """The point with its errors also estimated by a random probe, which is computed once in a run."""
        if self.method != "aid-cg" or self.spectrum.probe is not None:
            return point
        generator = torch.Generator(device="cpu").manual_seed(0)
        z = torch.randn(point.w.numel(), generator=generator, dtype=torch.float64, device="cpu").to(point.w)
        error = KrylovError(Spectrum(), lambda x: LEFT * float(lower_level.length(x)))
        tol = min(LEFT, SMALL / math.sqrt(len(z)))  # smaller than the part of z in nearly every direction
        try:
            solved = conjugate_gradient.solve(point.linearisation.d1_T, z, self.most, None, tol, error)
        except AssumptionError:
            self.spectrum.unknown = True
            return point
        work = point.work.plus(k=solved.k)
        if not error.error <= error.most(solved.v):
            self.spectrum.unknown = True
            return replace(point, work=work)
        self.spectrum.probe = solved.v
        error_w = max(point.error_w, self.spectrum.seen(point.excess))
        error_v = max(point.error_v, self.spectrum.seen(point.residual_v))
        return replace(point, error_w=error_w, error_v=error_v, work=work)

    def _with_symmetry(self, current: Iterate) -> Iterate:
        """Refuse conjugate gradient if ∂₁Φ is not symmetric here. A map may have a symmetric ∂₁Φ at some w only."""
        if self.method != "aid-cg" or self.problem.symmetric:
            return current
        conjugate_gradient.refuse_unless_symmetric(current.linearisation, self.problem)
        return replace(current, work=current.work.plus(k=TRIAL))

    def _products(self, solved: LinearSolution, start: Tensor | None) -> int:
        before = BEFORE if start is None else FROM_START
        return max(PRODUCTS[self.method] * solved.k + before[self.method], 0)

    def _solve(
        self, current: Iterate, b: Tensor, v: Tensor | None, tol: float, error: KrylovError | None = None
    ) -> LinearSolution:
        if not bool((b != 0).any()):  # E does not depend on w here, so v = 0
            if error is not None:
                error.error = 0.0
            return LinearSolution(torch.zeros_like(b), 0)
        if not 0 < float(b @ b) < math.inf:
            raise InputError(
                f"{self.problem.name}: ‖∇₁E‖ = {float(lower_level.length(b)):.1e} is too small or too large for "
                f"{str(b.dtype).removeprefix('torch.')}; scale outer_loss"
            )
        if self.method == "aid-fp":
            return self._repeated(current, b, v, tol, error)
        return solve(self.method, current.linearisation, b, self.most, v, tol, error)

    def _repeated(
        self, current: Iterate, b: Tensor, v: Tensor | None, tol: float, error: KrylovError | None
    ) -> LinearSolution:
        """Take steps v ← ∂₁Φᵀv + ∇₁E until the next step would be short enough; the first rate is that of w."""
        length, count = float(lower_level.length(b)), 1 if v is None else 0
        target, rate, v = tol * length, current.rate, b if v is None else v
        left = math.inf  # the total length of all further steps
        while count < self.most and (
            count == 0 or rate * length > target or (error is not None and not left <= error.most(v))
        ):
            v_before, v = v, current.linearisation.d1_T(v) + b
            length_before, length = length, float(lower_level.length(v - v_before))
            if count:  # before the first step from another v there is no step to compare with
                rate = _falling(length, length_before)
            count += 1
            left = _left(length, rate)
        if error is not None:
            error.error = left
        return LinearSolution(v, count)

    def linear_part(self, point: AidPoint, tol: float) -> tuple[Tensor, Work]:
        """∂₂Φᵀ(I − ∂₁Φᵀ)⁻¹r_v, the part of the point's error that is due to the linear solver, to first order."""
        if not bool(point.residual_v.norm() > 0):
            return torch.zeros_like(point.value), point.work
        solved = self._solve(point, point.residual_v, None, tol)
        part = self.prepared.pull_back(point.linearisation.d2_T(solved.v))
        return part, point.work.plus(k=self._products(solved, None), lam=1)

    def improved(self, current: Iterate, tol: float) -> Iterate:
        """Improve w until its residual is smaller by about the factor tol."""
        if self.method == "aid-cg" and self.newton:
            newton = self._newton(current, tol)
            if newton is not None:
                return newton
        return self._plain(current, tol)

    def in_vain(self, before: Iterate, after: Iterate) -> bool:
        """Whether the largest number of steps did not reduce the residual of w. Then more steps will not either."""
        spent = after.work.t - before.work.t >= self.most
        return spent and not float(after.excess.norm()) <= NO_NEARER * float(before.excess.norm())

    def _newton(self, current: Iterate, tol: float) -> Iterate | None:
        """An inexact Newton step; None if it does not reduce the residual as predicted."""
        try:
            if not isinstance(current, AidPoint):  # the symmetry at a point was tested when it was computed
                current = self._with_symmetry(current)
            error = KrylovError(self.spectrum, lambda s: max(tol, LEFT) * float(lower_level.length(s)))
            solved = conjugate_gradient.solve(current.linearisation.d1_T, current.excess, self.most, None, tol, error)
        except AssumptionError:  # I − ∂₁Φ is not definite here
            return None
        following = self.iterate(current.w - solved.v, current.work.plus(t=solved.k), current.rate)
        excess = float(following.excess.norm())
        # a step that reduces the residual less than the linear model predicts may lead to another fixed point
        if not excess <= PROMISED * float(current.excess.norm()):
            return None
        beyond = excess / error.residual if error.residual > 0 else math.inf if excess > 0 else 1.0
        return replace(following, error_w=error.error * max(beyond, 1.0))

    def _plain(self, current: Iterate, tol: float) -> Iterate:
        """Take steps of the lower level until the next step would be shorter by the factor tol.

        The prediction is that a step of Φ shrinks by the same factor as the step before.
        """
        problem = self.problem
        dynamics, step = problem.dynamics, lower_level.step_of(problem)
        plain = dynamics.step is FIXED_POINT.step  # then Φ(w), which is known, is the first step
        w, first = (current.w - current.excess if plain else current.w), float(current.excess.norm())
        z, count, length, rate = dynamics.start(w), 0, first, current.rate if plain else 1.0
        left = _left(rate * length, rate) if first > 0 else 0.0
        with torch.no_grad():
            while count < self.most and (rate * length > tol * first or left > LEFT * float((w - current.w).norm())):
                z, count = step(z, self.prepared.ready), count + 1
                w_before, w = w, dynamics.iterate(z)
                length_before, length = length, float((w - w_before).norm())
                rate = _falling(length, length_before) if plain else 1.0
                # with momentum, single steps may become longer: use the mean rate
                left = _left(rate * length, rate) if plain else _left(length, (length / first) ** (1 / count))
        if not bool(torch.isfinite(w).all()):
            raise lower_level.explain_divergence(problem, self.prepared.ready, dynamics.start(current.w), count)
        following = self.iterate(w, current.work.plus(t=count))
        after = float(following.excess.norm())
        if not plain:
            return replace(following, error_w=left)
        rate = _falling(after, length)
        return replace(following, rate=rate, error_w=_left(after, rate))


def _left(length: float, rate: float) -> float:
    """The total length of a step of this length and all later ones, if each is shorter by the factor `rate`."""
    return length / (1 - rate) if 0 <= rate < 1 else 0.0 if length == 0 else math.inf


def _falling(length: float, before: float) -> float:
    """The factor by which steps become shorter; 1 if they do not."""
    return length / before if 0 < length < before else 1.0

"""AID at a point (w, v), and a better point after it.

A better w comes from one inexact Newton step by conjugate gradient where ∂₁Φ is symmetric and I − ∂₁Φ definite, and
from further steps of the lower level otherwise. A better v comes from further steps of the linear solver.
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

PRODUCTS = {"aid-cg": 1, "aid-fp": 1, "aid-cgn": 2}  # of a step of the linear solver
BEFORE = {
    "aid-cg": 0,
    "aid-fp": -1,
    "aid-cgn": 1,
}  # of the first residual, from v = 0; the first step of aid-fp is free
FROM_START = {"aid-cg": 1, "aid-fp": 0, "aid-cgn": 2}  # of the first residual, from another v
TRIAL = 2  # products by which ∂₁Φ is seen to be symmetric
NO_NEARER = 0.9  # of the residual, where all steps that a solver may take were taken
LEFT = 0.3  # of the error of a point, which the next one may have: more would not show it
SMALL = 0.1  # of the mean part of a random vector in one direction: it is below that in 8 % of all
PROMISED = 0.5  # the part of the residual that a Newton step may leave; the linear model says tol


class Work(NamedTuple):
    """What was spent so far: evaluations of Φ and products with its derivatives."""

    t: int = 0  # for the lower level
    k: int = 0  # for the linear system
    lam: int = 0  # products with ∂₂Φᵀ, each of which has that with ∂₁Φᵀ too: it is the same backward pass
    again: int = 0  # evaluations of Φ that only ask whether it gives the same answer twice

    def plus(self, *, t: int = 0, k: int = 0, lam: int = 0) -> Work:
        """This and more."""
        return Work(self.t + t, self.k + k, self.lam + lam, self.again)

    @property
    def products(self) -> int:
        """All of it."""
        return sum(self)


@dataclass(frozen=True, eq=False)
class Iterate:
    """A w, with the linearisation of Φ and the residual there."""

    w: Tensor
    excess: Tensor  # w − Φ(w)
    linearisation: Linearisation
    work: Work
    rate: float  # by which the last steps of Φ became shorter; 1 where that is not known
    error_w: float  # an estimate of ‖w − w(λ)‖; infinite where nothing is known


@dataclass(frozen=True, eq=False)
class AidPoint(Iterate):
    """The hypergradient ∇₂E(w) + ∂₂Φ(w)ᵀv, with the residuals of w and v."""

    v: Tensor
    value: Tensor
    b: Tensor  # ∇₁E
    direct: Tensor  # ∇₂E
    residual_v: Tensor  # (I − ∂₁Φᵀ)v − ∇₁E
    error_v: float  # an estimate of the error of v; infinite where nothing is known

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
    spectrum: Spectrum = field(default_factory=Spectrum)

    def iterate(self, w: Tensor, work: Work, rate: float = 1.0) -> Iterate:
        """Φ at w."""
        linearised = linearise(self.problem, w, self.prepared)
        return Iterate(w, w - linearised.y.detach(), linearised, work.plus(t=1), rate, math.inf)

    def point(self, at: Iterate, v: Tensor | None, tol: float, *, known: bool = False) -> AidPoint:
        """AID there, from the start v, to a residual of tol‖∇₁E(w)‖; with `known`, to an error that is small, too."""
        outer = outer_gradients(self.problem, at.w, self.prepared.leaves)

        def most(x: Tensor) -> float:
            if not known:
                return math.inf
            change = x if v is None else x - v
            return max(tol * float(lower_level.length(x)), LEFT * float(lower_level.length(change)))

        at = self._with_symmetry(at)
        error = KrylovError(self.spectrum, most, normal=self.method == "aid-cgn")
        solved = self._solve(at, outer.w, v, tol, error)
        by_w, by_lam = at.linearisation.transposed(solved.v, last=False)
        value = self.prepared.pull_back(tuple(a + b for a, b in zip(outer.lam, by_lam, strict=True)))
        direct = self.prepared.pull_back(outer.lam)
        residual_v = solved.v - by_w - outer.w
        spent = at.work.plus(k=self._products(solved, v), lam=1)
        of_w = at.w, at.excess, at.linearisation, spent, at.rate, at.error_w
        return AidPoint(*of_w, solved.v, value, outer.w, direct, residual_v, error.error)

    def after(self, point: AidPoint, at: Iterate, tol: float) -> AidPoint:
        """AID at the next w, from the v of the point; a step of aid-fp from there is part of its residual."""
        start = point.v - point.residual_v if self.method == "aid-fp" else point.v
        return self.point(at, start, tol, known=True)

    def probed(self, point: AidPoint) -> AidPoint:
        """The point with its errors as a random probe sees them, which is made once in a run."""
        if self.method != "aid-cg" or self.spectrum.probe is not None:
            return point
        generator = torch.Generator(device="cpu").manual_seed(0)
        z = torch.randn(point.w.numel(), generator=generator, dtype=torch.float64, device="cpu").to(point.w)
        error = KrylovError(Spectrum(), lambda x: LEFT * float(lower_level.length(x)))
        tol = min(LEFT, SMALL / math.sqrt(len(z)))  # below the part of z in nearly every direction
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

    def _with_symmetry(self, at: Iterate) -> Iterate:
        """Refuse conjugate gradient where ∂₁Φ is not symmetric, which a map may be at one w and not at the next."""
        if self.method != "aid-cg" or self.problem.symmetric:
            return at
        conjugate_gradient.refuse_unless_symmetric(at.linearisation, self.problem)
        return replace(at, work=at.work.plus(k=TRIAL))

    def _products(self, solved: LinearSolution, start: Tensor | None) -> int:
        before = BEFORE if start is None else FROM_START
        return max(PRODUCTS[self.method] * solved.k + before[self.method], 0)

    def _solve(
        self, at: Iterate, b: Tensor, v: Tensor | None, tol: float, error: KrylovError | None = None
    ) -> LinearSolution:
        if not bool((b != 0).any()):  # nothing depends on w here, and a relative tolerance asks for nothing
            if error is not None:
                error.error = 0.0
            return LinearSolution(torch.zeros_like(b), 0)
        if not 0 < float(b @ b) < math.inf:
            raise InputError(
                f"{self.problem.name}: ‖∇₁E‖ = {float(lower_level.length(b)):.1e} is too small or too large for "
                f"{str(b.dtype).removeprefix('torch.')}; scale outer_loss"
            )
        if self.method == "aid-fp":
            return self._repeated(at, b, v, tol, error)
        return solve(self.method, at.linearisation, b, self.most, v, tol, error)

    def _repeated(
        self, at: Iterate, b: Tensor, v: Tensor | None, tol: float, error: KrylovError | None
    ) -> LinearSolution:
        """Steps v ← ∂₁Φᵀv + ∇₁E until the next one would be short enough; the rate of w is a guess of that of v."""
        length, count = float(lower_level.length(b)), 1 if v is None else 0
        target, rate, v = tol * length, at.rate, b if v is None else v
        left = math.inf  # the length of all steps that would follow
        while count < self.most and (
            count == 0 or rate * length > target or (error is not None and not left <= error.most(v))
        ):
            v_before, v = v, at.linearisation.d1_T(v) + b
            length_before, length = length, float(lower_level.length(v - v_before))
            if count:  # the first step from another v has none before it
                rate = _falling(length, length_before)
            count += 1
            left = _left(length, rate)
        if error is not None:
            error.error = left
        return LinearSolution(v, count)

    def linear_part(self, point: AidPoint, tol: float) -> tuple[Tensor, Work]:
        """∂₂Φᵀ(I − ∂₁Φᵀ)⁻¹r_v: what the linear solver adds to the error of the point, to first order."""
        if not bool(point.residual_v.norm() > 0):
            return torch.zeros_like(point.value), point.work
        solved = self._solve(point, point.residual_v, None, tol)
        part = self.prepared.pull_back(point.linearisation.d2_T(solved.v))
        return part, point.work.plus(k=self._products(solved, None), lam=1)

    def improved(self, at: Iterate, tol: float) -> Iterate:
        """A w whose residual is smaller by about the factor tol."""
        if self.method == "aid-cg" and self.newton:
            newton = self._newton(at, tol)
            if newton is not None:
                return newton
        return self._plain(at, tol)

    def in_vain(self, before: Iterate, after: Iterate) -> bool:
        """Did all the steps that a solver may take bring w no nearer to rest? Then more of them will not, either."""
        spent = after.work.t - before.work.t >= self.most
        return spent and not float(after.excess.norm()) <= NO_NEARER * float(before.excess.norm())

    def _newton(self, at: Iterate, tol: float) -> Iterate | None:
        """An inexact Newton step, if it lowers the residual as it promises; None if it does not."""
        try:
            if not isinstance(at, AidPoint):  # those were asked when they were computed
                at = self._with_symmetry(at)
            error = KrylovError(self.spectrum, lambda s: max(tol, LEFT) * float(lower_level.length(s)))
            solved = conjugate_gradient.solve(at.linearisation.d1_T, at.excess, self.most, None, tol, error)
        except AssumptionError:  # not definite here
            return None
        following = self.iterate(at.w - solved.v, at.work.plus(t=solved.k), at.rate)
        excess = float(following.excess.norm())
        # A step that brings less than the linear model says may lead to the neighbourhood of another fixed point.
        if not excess <= PROMISED * float(at.excess.norm()):
            return None
        beyond = excess / error.residual if error.residual > 0 else math.inf if excess > 0 else 1.0
        return replace(following, error_w=error.error * max(beyond, 1.0))

    def _plain(self, at: Iterate, tol: float) -> Iterate:
        """Steps of the lower level until the next one would be shorter by the factor tol.

        A step of Φ is taken to be shorter than the one before by the factor that this one was.
        """
        problem = self.problem
        dynamics, step = problem.dynamics, lower_level.step_of(problem)
        plain = dynamics.step is FIXED_POINT.step  # then Φ(w) is the first step, and known
        w, first = (at.w - at.excess if plain else at.w), float(at.excess.norm())
        z, count, length, rate = dynamics.start(w), 0, first, at.rate if plain else 1.0
        left = _left(rate * length, rate) if first > 0 else 0.0
        with torch.no_grad():
            while count < self.most and (rate * length > tol * first or left > LEFT * float((w - at.w).norm())):
                z, count = step(z, self.prepared.ready), count + 1
                w_before, w = w, dynamics.iterate(z)
                length_before, length = length, float((w - w_before).norm())
                rate = _falling(length, length_before) if plain else 1.0
                # Steps with momentum do not all become shorter: their mean rate counts.
                left = _left(rate * length, rate) if plain else _left(length, (length / first) ** (1 / count))
        if not bool(torch.isfinite(w).all()):
            raise lower_level.explain_divergence(problem, self.prepared.ready, dynamics.start(at.w), count)
        following = self.iterate(w, at.work.plus(t=count))
        after = float(following.excess.norm())
        if not plain:
            return replace(following, error_w=left)
        rate = _falling(after, length)
        return replace(following, rate=rate, error_w=_left(after, rate))


def _left(length: float, rate: float) -> float:
    """The length of all steps from one on that is so long, if each is shorter by the same factor."""
    return length / (1 - rate) if 0 <= rate < 1 else 0.0 if length == 0 else math.inf


def _falling(length: float, before: float) -> float:
    """By what factor steps become shorter; 1 where they do not."""
    return length / before if 0 < length < before else 1.0

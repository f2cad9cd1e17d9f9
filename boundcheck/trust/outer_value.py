"""Compute f(λ) and ∇f(λ) only as accurately as requested, by Newton corrections of w and v from a warm start.

A correction solves A s = w − Φ(w) for s, A = I − ∂₁Φ, replaces w by w − s, and then solves Aᵀv = ∇₁E(w), starting from
the present v. There are two kinds. A **strict** correction solves both systems to a relative error of `LEFT` in the
solution. So it removes most of the error for any condition number of A, and the change of the hypergradient shows the
error before the correction. A **loose** correction stops at a residual, and shows nothing by itself.

At most points there is one loose correction. The estimate assumes that it leaves the same share of the error as the
last loose correction that was checked. A check is another correction with a residual smaller by the factor `CHECK`. One
of `EVERY` points is checked, and every point at which the estimate is not small enough. The residual of the loose
corrections is adapted to the result of the checks. If an error has to be shown, corrections are strict. Because v
solves the adjoint system, E(w) − vᵀ(w − Φ(w)) is f up to second order, at no further cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from boundcheck.errors import DivergenceError
from boundcheck.numerics.bilevel.derivatives import Linearisation, linearise, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers import lower_level
from boundcheck.trust.linear_solver import LinearSolver

EVERY = 5  # check one of this many points
CHECK = 0.1  # the residual of a check relative to that of a loose correction
SAFETY = 1.0  # a factor on the error that a loose correction is assumed to leave
LOOSE, TIGHTEST = 0.1, 1e-6  # the largest and the smallest residual of loose corrections
WELL, BADLY = 0.05, 0.3  # adapt the residual if a loose correction leaves less, or more, than these shares of the error
ADAPT = 3.0  # the factor by which the residual is adapted
MOST_CORRECTIONS = 40  # the largest number of corrections at a point
PARTS = (1.0, 0.5, 0.25)  # the parts of a correction that are tried
FALLS = 0.3  # a correction is conclusive only if it reduces the residual to this fraction
PLAIN = 20  # steps of Φ, if no part of a correction helps
GROWS = 10.0  # steps of Φ that increase the residual by more than this factor are not taken
SMALLER_PARTS = (1 / 16, 1 / 64, 1 / 256)  # the parts of a correction that are tried then
LOSS_ROUNDINGS = 8  # the rounding of a sum such as E, in units of the last place


@dataclass(frozen=True, eq=False)
class OuterValue:
    """f and ∇f at one λ, with estimates of their errors, and their cost.

    `t` and `k` are the products for w and for v. `products` is the sum of both, of the evaluations of Φ and of the
    products with ∂₂Φ. `shown` says whether a strict correction has shown the error. `shift` is E(w) − f.
    """

    lam: Tensor
    f: float
    f_error: float
    g: Tensor
    error: float  # the error of g, in the norm of the request
    w: Tensor
    v: Tensor
    t: int
    k: int
    products: int
    shown: bool = True
    shift: float = 0.0


@dataclass(frozen=True)
class RequestedAccuracy:
    """The requested accuracy of a hypergradient g: an error of at most max(rtol·norm(g), atol), in this norm.

    With `show`, a strict correction has to show the error. f may have an error of `f_atol`.
    """

    rtol: float
    atol: float
    norm: Callable[[Tensor], float]
    show: bool = False
    f_atol: float = math.inf

    def allows(self, error: float, g: Tensor) -> bool:
        """Whether an error of g is small enough."""
        return error <= max(self.rtol * self.norm(g), self.atol)


@dataclass(frozen=True, eq=False)
class Start:
    """A warm start (w, v), and the hypergradient at the point where it comes from; g is None if there is none."""

    w: Tensor
    v: Tensor
    g: Tensor | None = None


Evaluate = Callable[[Problem, Start, RequestedAccuracy], OuterValue]  # the value at the problem's λ


class Corrections:
    """Values along one run: an `Evaluate` that remembers how much error its corrections left."""

    def __init__(self) -> None:
        self.solver = LinearSolver()
        self.loose = LOOSE
        self.left: float | None = None  # the share of the error that the last checked loose correction left
        self.unseen = 0  # the number of points since the last check
        self.every = EVERY

    def __call__(self, problem: Problem, start: Start, request: RequestedAccuracy) -> OuterValue:
        """f and ∇f at `problem.lam`, to the requested accuracy by an estimate."""
        point = _SolvedPoint.start(problem, Prepared(problem, problem.lam), start)
        point = point.plus(self.solver.look(problem, point.linearised)).corrected(self.solver, self.loose)
        for _ in range(MOST_CORRECTIONS):
            if not abs(point.shift) > request.f_atol:
                break
            point = point.corrected(self.solver, self.loose)
        jump = request.norm(point.g if start.g is None else point.g - start.g)
        self.unseen += 1
        if not request.show and self.left is not None and self.unseen < self.every and point.full:
            error = SAFETY * self.left * jump
            if request.allows(error, point.g):
                return point.value(error, abs(point.shift), shown=False)
        residual = None if request.show else CHECK
        if residual is None:
            point = point.plus(self.solver.follow(problem, point.linearised))
        point, error, first = self._until(point, request, residual)
        if jump > 0:
            self._adapt(first / jump)
        return point.value(error, point.f_change if math.isfinite(error) else math.inf, shown=request.show)

    def _until(
        self, point: _SolvedPoint, request: RequestedAccuracy, residual: float | None
    ) -> tuple[_SolvedPoint, float, float]:
        """Correct until a correction changes little: the last point, its error, and the change by the first one."""
        eps = torch.finfo(point.g.dtype).eps
        first, change, error = math.nan, math.inf, math.inf
        for _ in range(MOST_CORRECTIONS):
            before, point = point, point.corrected(self.solver, residual)
            change_before, change = change, request.norm(point.g - before.g)
            first = change if math.isnan(first) else first
            if not point.full:  # this correction is not conclusive
                change = math.inf
                continue
            rate = change / change_before if change_before > 0 else 0.0
            error = change * max(1.0, rate / (1 - rate)) if rate < 1 else math.inf
            if request.allows(error, point.g) or change <= LOSS_ROUNDINGS * eps * request.norm(point.g):
                break
        return point, error, first

    def _adapt(self, left: float) -> None:
        confirmed = self.left is not None and left <= ADAPT * self.left
        self.every = 2 * self.every if confirmed else EVERY
        self.left, self.unseen = left, 0
        if left < WELL:
            self.loose = min(LOOSE, self.loose * ADAPT)
        elif left > BADLY:
            self.loose = max(TIGHTEST, self.loose / ADAPT)


@dataclass(frozen=True, eq=False)
class _SolvedPoint:
    """(w, v) at one λ, with f, g and the work so far; `full` says whether the last correction is conclusive."""

    problem: Problem
    prepared: Prepared
    linearised: Linearisation
    w: Tensor
    v: Tensor
    g: Tensor
    f: float
    f_change: float
    shift: float  # vᵀ(w − Φ(w))
    full: bool
    t: int
    k: int
    products: int

    @classmethod
    def start(cls, problem: Problem, prepared: Prepared, start: Start) -> _SolvedPoint:
        nothing = torch.zeros_like(problem.lam)
        linearised = linearise(problem, start.w, prepared)
        return cls(problem, prepared, linearised, start.w, start.v, nothing, math.inf, math.inf, 0.0, True, 0, 0, 1)

    def plus(self, products: int) -> _SolvedPoint:
        """The same point, with more products counted."""
        return replace(self, products=self.products + products)

    def corrected(self, solver: LinearSolver, residual: float | None) -> _SolvedPoint:
        """The point after a correction: loose, to `residual`, or strict if `residual` is None."""
        moved = _moved(self.problem, self.prepared, self.linearised, solver, residual)
        linearised, w = moved.linearised, moved.linearised.x.detach()
        outer = outer_gradients(self.problem, w, self.prepared.leaves)
        dv, k = solver.solve(linearised, outer.w - (self.v - linearised.d1_T(self.v)), residual, transposed=True)
        v = self.v + dv
        parts = zip(outer.lam, linearised.d2_T(v), strict=True)
        g = self.prepared.pull_back(tuple(a + b for a, b in parts))
        if not bool(torch.isfinite(g).all()):
            raise DivergenceError(
                f"{self.problem.name}: the hypergradient is not finite at this lam; reduce outer_step"
            )
        with torch.no_grad():
            E = float(self.problem.outer_at(w, self.prepared.ready))
        shift = float(v @ moved.left)
        return _SolvedPoint(
            self.problem, self.prepared, linearised, w, v, g, E - shift, abs(E - shift - self.f), shift, moved.full,
            self.t + moved.t, self.k + k, self.products + moved.products + k + 2,
        )  # fmt: skip

    def value(self, error: float, f_error: float, *, shown: bool) -> OuterValue:
        """The point as an `OuterValue` with these errors."""
        rounding = LOSS_ROUNDINGS * torch.finfo(self.w.dtype).eps * abs(self.f)
        return OuterValue(
            self.problem.lam, self.f, f_error + rounding, self.g, error, self.w, self.v, self.t, self.k, self.products,
            shown, self.shift,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Moved:
    """Φ at the next w, the residual w − Φ(w) there, whether the correction is conclusive, and its cost.

    A small change is conclusive only if the whole correction was taken and the residual fell. Far from a solution,
    every correction may change little.
    """

    linearised: Linearisation
    left: Tensor
    full: bool
    t: int
    products: int


def _moved(
    problem: Problem, prepared: Prepared, linearised: Linearisation, solver: LinearSolver, residual: float | None
) -> _Moved:
    """The next w: w − s, or w minus a part of s that reduces the residual, or w after some steps of Φ."""
    w = linearised.x.detach()
    left = w - linearised.y.detach()
    size = float(left.norm())
    if size <= 4 * torch.finfo(w.dtype).eps * float(w.norm()):
        return _Moved(linearised, left, True, 0, 0)
    s, used = solver.solve(linearised, left, residual, transposed=False)
    for tries, part in enumerate(PARTS, 1):
        tried, left = _residual_at(problem, prepared, w - part * s)
        if (size_after := float(left.norm())) < size:
            near = size_after <= FALLS * size or float(s.norm()) <= math.sqrt(torch.finfo(w.dtype).eps) * float(
                w.norm()
            )
            return _Moved(tried, left, part == 1 and near, used, used + tries)
    z = lower_level.run(problem, prepared.ready, problem.dynamics.start(w), PLAIN).z
    tried, left = _residual_at(problem, prepared, problem.dynamics.iterate(z))
    products = used + PLAIN + len(PARTS) + 1
    if float(left.norm()) <= GROWS * size:
        return _Moved(tried, left, False, used + PLAIN, products)
    for tries, part in enumerate(SMALLER_PARTS, 1):  # Φ does not contract here
        tried, left = _residual_at(problem, prepared, w - part * s)
        if float(left.norm()) < size:
            return _Moved(tried, left, False, used + PLAIN, products + tries)
    if not bool(torch.isfinite(left).all()):
        raise lower_level.explain_divergence(problem, prepared.ready, problem.dynamics.start(w), PLAIN)
    return _Moved(*_residual_at(problem, prepared, w), False, used + PLAIN, products + len(SMALLER_PARTS) + 1)


def _residual_at(problem: Problem, prepared: Prepared, w: Tensor) -> tuple[Linearisation, Tensor]:
    """Φ linearised at w, and w − Φ(w)."""
    linearised = linearise(problem, w, prepared)
    return linearised, linearised.x.detach() - linearised.y.detach()

"""f(λ) and ∇f(λ) no more exactly than asked, by Newton corrections of w and v from a warm start.

A correction solves A s = w − Φ(w) for s, A = I − ∂₁Φ, takes w − s for w, and then solves Aᵀv = ∇₁E(w) from the v it
has. There are two kinds. A **strict** one solves both systems to a relative error of `LEFT` in the solution. So it
takes most of the error away, whatever the condition of A, and what it changes in the hypergradient shows the error that
was there before. A **loose** one stops at a residual, and says nothing by itself.

At most points there is one loose correction. It is taken to leave the part of the error that the last one left, which a
check after it has shown: a correction with a residual that is smaller by the factor `CHECK`. One point of `EVERY` is
checked, and every one where the estimate is not small enough. The residual of the loose corrections is adapted to what
was seen. Where an error is to be shown, corrections are strict. As v solves the adjoint system, E(w) − vᵀ(w − Φ(w)) is
f up to second order, at no further cost.
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

EVERY = 5  # points, of which one is checked
CHECK = 0.1  # the residual of a check, in that of a loose correction
SAFETY = 1.0  # times the error that a loose correction is taken to leave
LOOSE, TIGHTEST = 0.1, 1e-6  # the residual of loose corrections: at most, and at least
WELL, BADLY = 0.05, 0.3  # parts of the error that a loose correction leaves; between them its residual stays as it is
ADAPT = 3.0  # times the residual, where it does not
MOST_CORRECTIONS = 40
PARTS = (1.0, 0.5, 0.25)  # of a correction that are tried
FALLS = 0.3  # times the residual, at most, where a correction is worth what it is near a solution
PLAIN = 20  # steps of Φ where none of them helps
LOSS_ROUNDINGS = 8  # units of the last place that a sum such as E is taken to be off by


@dataclass(frozen=True, eq=False)
class OuterValue:
    """f and ∇f at one λ, with estimates of their errors, and what they cost.

    `t` and `k` are the products that were spent on w and on v. `products` has them, the evaluations of Φ and the
    products with ∂₂Φ. `shown` says whether a strict correction has shown the error.
    """

    lam: Tensor
    f: float
    f_error: float
    g: Tensor
    error: float  # of g, in the norm that was asked for
    w: Tensor
    v: Tensor
    t: int
    k: int
    products: int
    shown: bool = True


@dataclass(frozen=True)
class RequestedAccuracy:
    """The accuracy of a hypergradient g: an error of at most max(rtol·norm(g), atol), in that norm.

    With `show`, a strict correction has to show it. f may have an error of `f_atol`.
    """

    rtol: float
    atol: float
    norm: Callable[[Tensor], float]
    show: bool = False
    f_atol: float = math.inf

    def allows(self, error: float, g: Tensor) -> bool:
        """Is such an error of g small enough?"""
        return error <= max(self.rtol * self.norm(g), self.atol)


@dataclass(frozen=True, eq=False)
class Start:
    """A warm start (w, v), and the hypergradient where it comes from; None where there is none."""

    w: Tensor
    v: Tensor
    g: Tensor | None = None


Evaluate = Callable[[Problem, Start, RequestedAccuracy], OuterValue]  # at the problem's λ


class Corrections:
    """Values along one run: an `Evaluate` that remembers what its corrections were worth."""

    def __init__(self) -> None:
        self.solver = LinearSolver()
        self.loose = LOOSE
        self.left: float | None = None  # the part of the error that the last loose correction left
        self.unseen = 0  # points since then
        self.every = EVERY

    def __call__(self, problem: Problem, start: Start, asked: RequestedAccuracy) -> OuterValue:
        """f and ∇f at `problem.lam`, as exactly as asked by an estimate."""
        at = _SolvedPoint.start(problem, Prepared(problem, problem.lam), start)
        at = at.plus(self.solver.look(problem, at.linearised)).corrected(self.solver, self.loose)
        for _ in range(MOST_CORRECTIONS):
            if not abs(at.shift) > asked.f_atol:
                break
            at = at.corrected(self.solver, self.loose)
        jump = asked.norm(at.g if start.g is None else at.g - start.g)
        self.unseen += 1
        if not asked.show and self.left is not None and self.unseen < self.every and at.full:
            error = SAFETY * self.left * jump
            if asked.allows(error, at.g):
                return at.value(error, abs(at.shift), shown=False)
        residual = None if asked.show else CHECK
        if residual is None:
            at = at.plus(self.solver.follow(problem, at.linearised))
        at, error, first = self._until(at, asked, residual)
        if jump > 0:
            self._adapt(first / jump)
        return at.value(error, at.f_change if math.isfinite(error) else math.inf, shown=asked.show)

    def _until(
        self, at: _SolvedPoint, asked: RequestedAccuracy, residual: float | None
    ) -> tuple[_SolvedPoint, float, float]:
        """Corrections until one changes little: the point after it, its error, and what the first one changed."""
        eps = torch.finfo(at.g.dtype).eps
        first, change, error = math.nan, math.inf, math.inf
        for _ in range(MOST_CORRECTIONS):
            before, at = at, at.corrected(self.solver, residual)
            change_before, change = change, asked.norm(at.g - before.g)
            first = change if math.isnan(first) else first
            if not at.full:  # no correction to conclude from
                change = math.inf
                continue
            rate = change / change_before if change_before > 0 else 0.0
            error = change * max(1.0, rate / (1 - rate)) if rate < 1 else math.inf
            if asked.allows(error, at.g) or change <= LOSS_ROUNDINGS * eps * asked.norm(at.g):
                break
        return at, error, first

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
    """(w, v) at one λ with what is known there; `full` if the last correction is one to conclude from."""

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
        """The same with more products spent."""
        return replace(self, products=self.products + products)

    def corrected(self, solver: LinearSolver, residual: float | None) -> _SolvedPoint:
        """After a correction: loose to a residual, strict if that is None."""
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
        """As a result, with these errors."""
        rounding = LOSS_ROUNDINGS * torch.finfo(self.w.dtype).eps * abs(self.f)
        return OuterValue(
            self.problem.lam, self.f, f_error + rounding, self.g, error, self.w, self.v, self.t, self.k, self.products,
            shown,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Moved:
    """Φ at the next w, the residual w − Φ(w) there, whether to conclude from the correction, and what it cost.

    That it changes little says something only if all of it was taken and the residual fell: far from a solution, every
    correction may change little.
    """

    linearised: Linearisation
    left: Tensor
    full: bool
    t: int
    products: int


def _moved(
    problem: Problem, prepared: Prepared, linearised: Linearisation, solver: LinearSolver, residual: float | None
) -> _Moved:
    """The next w: w − s, or with a part of s that lowers the residual, or after some steps of Φ."""
    w = linearised.x.detach()
    left = w - linearised.y.detach()
    size = float(left.norm())
    if size <= 4 * torch.finfo(w.dtype).eps * float(w.norm()):
        return _Moved(linearised, left, True, 0, 0)
    s, used = solver.solve(linearised, left, residual, transposed=False)
    for tries, part in enumerate(PARTS, 1):
        tried = linearise(problem, w - part * s, prepared)
        left = tried.x.detach() - tried.y.detach()
        if (size_after := float(left.norm())) < size:
            near = size_after <= FALLS * size or float(s.norm()) <= math.sqrt(torch.finfo(w.dtype).eps) * float(
                w.norm()
            )
            return _Moved(tried, left, part == 1 and near, used, used + tries)
    z = lower_level.run(problem, prepared.ready, problem.dynamics.start(w), PLAIN).z
    tried = linearise(problem, problem.dynamics.iterate(z), prepared)
    left = tried.x.detach() - tried.y.detach()
    if not bool(torch.isfinite(left).all()):
        raise lower_level.explain_divergence(problem, prepared.ready, problem.dynamics.start(w), PLAIN)
    return _Moved(tried, left, False, used + PLAIN, used + PLAIN + len(PARTS) + 1)

"""Who says when a run has arrived: the true ‖∇f‖, at no cost for the run, and a limit of products."""

from __future__ import annotations

from dataclasses import dataclass, replace

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.trust.coordinates import PLAIN
from boundcheck.trust.descent import Descent, Stuck
from boundcheck.trust.outer_value import Corrections, Evaluate, OuterValue, RequestedAccuracy, Start

EXACT = 1e-6  # the relative error of the true gradient
LOOK = 10  # the judge looks at every tenth point, and wherever the run's own ‖g‖ is below three times tol


@dataclass(frozen=True)
class Run:
    """Products until ‖∇f‖ ≤ tol at some point of a run; infinite if it never was within the limit."""

    name: str
    products: float
    points: int


class Arrived(Exception):  # noqa: N818 - no error
    """‖∇f‖ ≤ tol, or the limit is reached."""


class Judge:
    """Counts the products of one run, and ends it."""

    def __init__(self, problem: Problem, tol: float, highest: float, limit: float, most: int) -> None:
        self.problem, self.tol, self.highest, self.limit, self.most = problem, tol, highest, limit, most
        self.products, self.points, self.reached = 0, 0, False
        self._true = Corrections()

    def spend(self, products: int) -> None:
        """Count products that lead to no new point."""
        self.products += products
        if self.products > self.limit:
            raise Arrived

    def see(self, at: OuterValue) -> None:
        """Look at a point that the run goes on from."""
        self.points += 1
        size = float(at.g.norm())
        if not size < float("inf") or self.points > self.most:
            raise Arrived
        if size <= 3 * self.tol or self.points % LOOK == 0:
            true = self.true(at)
            if true.g.norm() <= self.tol:
                self.reached = true.f <= self.highest  # else it is a plateau far away, which it will not leave
                raise Arrived

    def true(self, at: OuterValue) -> OuterValue:
        """f and ∇f to high accuracy."""
        asked = RequestedAccuracy(EXACT, 0.01 * self.tol, lambda g: float(g.norm()), show=True)
        return self._true(quick(replace(self.problem, lam=at.lam)), Start(at.w, at.v), asked)

    def run(self, name: str) -> Run:
        """What it came to."""
        return Run(name, self.products if self.reached else float("inf"), self.points)


def watched(judge: Judge, name: str, evaluate: Evaluate, step: float | None = None) -> Run:
    """A descent with these values, by the rule of `minimise` or with a constant step, until the judge ends it."""

    def counted(problem: Problem, start: Start, asked: RequestedAccuracy) -> OuterValue:
        value = evaluate(problem, start, asked)
        judge.spend(value.products)
        return value

    descent = Descent(judge.problem, counted, PLAIN, 0.25 * judge.tol, "barzilai-borwein", None, lambda trial: None)
    try:
        here = descent.start()
        while True:
            judge.see(here)
            if step is None:
                here = descent.step(here)
            else:
                here = descent.value(here.lam - step * here.g, Start(here.w, here.v))
    except (Arrived, Stuck, bc.AssumptionError, bc.DivergenceError):
        return judge.run(name)

"""Who says when a run has arrived: the true ‖∇f‖, at no cost for the run, and a limit of products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.trust.linear_solver import LinearSolver
from boundcheck.trust.outer_value import Asked, OuterValue, outer_value

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

    def __init__(self, problem: Problem, tol: float, highest: float, limit: float) -> None:
        self.problem, self.tol, self.highest, self.limit = problem, tol, highest, limit
        self.products, self.points, self.reached = 0, 0, False
        self._true = partial(outer_value, solver=LinearSolver())

    def spend(self, products: int) -> None:
        """Count products that lead to no new point."""
        self.products += products
        if self.products > self.limit:
            raise Arrived

    def see(self, lam: Tensor, g: Tensor, w: Tensor, v: Tensor) -> None:
        """Look at a point that the run goes on from."""
        self.points += 1
        size = float(g.norm())
        if not size < float("inf"):
            raise Arrived
        if size <= 3 * self.tol or self.points % LOOK == 0:
            true = self.true(lam, w, v)
            if true.g.norm() <= self.tol:
                self.reached = true.f <= self.highest  # else it is a plateau far away, which it will not leave
                raise Arrived

    def true(self, lam: Tensor, w: Tensor, v: Tensor) -> OuterValue:
        """f and ∇f to high accuracy."""
        asked = Asked(EXACT, 0.01 * self.tol, lambda g: float(g.norm()))
        return self._true(quick(replace(self.problem, lam=lam)), w, v, asked)

    def run(self, name: str) -> Run:
        """What it came to."""
        return Run(name, self.products if self.reached else float("inf"), self.points)

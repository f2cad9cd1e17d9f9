"""Descent with the same number of steps t and k at every point, from warm starts.

Two lower levels: t steps of Φ, as AID is usually run, and t steps of CG in one Newton step, the solver that `minimise`
uses. Two outer rules: a constant step, and the rule of `minimise`, where f and g count as exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from boundcheck.numerics.bilevel.derivatives import linearise, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers import conjugate_gradient, lower_level
from boundcheck.trust.outer_value import OuterValue, RequestedAccuracy, Start
from outer_rules.judge import Judge, Run, watched


@dataclass(frozen=True)
class Fixed:
    """A choice of t and k, of the lower level, and of the outer step; None for the rule of `minimise`."""

    t: int
    k: int
    newton: bool
    step: float | None

    def __str__(self) -> str:
        lower = "CG" if self.newton else "Φ"
        outer = "line search" if self.step is None else f"step {self.step:.3g}"
        return f"t = {self.t} ({lower}), k = {self.k}, {outer}"


def value(problem: Problem, start: Start, asked: RequestedAccuracy, *, choice: Fixed) -> OuterValue:
    """AID with t and k steps."""
    prepared = Prepared(problem, problem.lam)
    w, v, t, k, products = start.w, start.v, choice.t, choice.k, choice.t
    if choice.newton:
        at = linearise(problem, w, prepared)
        w = w - conjugate_gradient.solve(at.d1_T, w - at.y.detach(), t, None, None).v
        products += 1
    else:
        w = lower_level.run(problem, prepared.ready, w, t).z
    at = linearise(problem, w, prepared)
    outer = outer_gradients(problem, w, prepared.leaves)
    v = conjugate_gradient.solve(at.d1_T, outer.w, k, v, None).v
    g = prepared.pull_back(tuple(a + b for a, b in zip(outer.lam, at.d2_T(v), strict=True)))
    products += k + 3  # Φ, the residual of the warm start, ∂₂Φ
    with torch.no_grad():
        f = float(problem.outer_at(w, prepared.ready))
    return OuterValue(problem.lam, f, 0.0, g, 0.0, w, v, t, k, products)


def run(judge: Judge, choice: Fixed) -> Run:
    """Down to tol with one choice."""
    return watched(judge, str(choice), partial(value, choice=choice), choice.step)

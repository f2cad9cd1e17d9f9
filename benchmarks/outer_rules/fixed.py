"""Descent with the same number of steps t and k at every point, from warm starts.

Two lower levels: t steps of Φ, as AID is usually run, and t steps of CG in one Newton step, the solver that `minimise`
uses. Two outer rules: a constant step, and the rule of `minimise`, where f and g count as exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.derivatives import linearise, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.solvers import conjugate_gradient, lower_level
from boundcheck.trust.coordinates import PLAIN
from boundcheck.trust.descent import Descent, Stuck
from boundcheck.trust.outer_value import Asked, OuterValue
from outer_rules.judge import Arrived, Judge, Run


@dataclass(frozen=True)
class Fixed:
    """A choice of t and k, of the lower level, and of the outer step; None for the rule of `minimise`."""

    t: int
    k: int
    newton: bool
    step: float | None

    def __str__(self) -> str:
        lower = "CG" if self.newton else "Φ"
        return f"t = {self.t} ({lower}), k = {self.k}, " + ("line search" if self.step is None else f"α = {self.step:g}")


def value(problem: Problem, w: Tensor, v: Tensor, asked: Asked, *, judge: Judge, choice: Fixed) -> OuterValue:
    """AID with t and k steps."""
    prepared = Prepared(problem, problem.lam)
    t, k, products = choice.t, choice.k, 0
    if choice.newton:
        at = linearise(problem, w, prepared)
        w = w - conjugate_gradient.solve(at.d1_T, w - at.y.detach(), t, None, None).v
        products += t + 1
    else:
        w = lower_level.run(problem, prepared.ready, w, t).z
        products += t
    at = linearise(problem, w, prepared)
    outer = outer_gradients(problem, w, prepared.leaves)
    v = conjugate_gradient.solve(at.d1_T, outer.w, k, v, None).v
    g = prepared.pull_back(tuple(a + b for a, b in zip(outer.lam, at.d2_T(v), strict=True)))
    products += k + 3  # Φ, the residual of the warm start, ∂₂Φ
    with torch.no_grad():
        f = float(problem.outer_at(w, prepared.ready))
    judge.spend(products)
    return OuterValue(problem.lam, f, 0.0, g, 0.0, w, v, t, k, products)


def run(problem: Problem, tol: float, highest: float, choice: Fixed, limit: float) -> Run:
    """Down to tol with one choice."""
    judge = Judge(problem, tol, highest, limit)
    evaluate = partial(value, judge=judge, choice=choice)
    descent = Descent(problem, evaluate, PLAIN, 0.0, "barzilai-borwein", None, lambda trial: None)
    try:
        here = descent.start()
        while True:
            judge.see(here.lam, here.g, here.w, here.v)
            if choice.step is None:
                here = descent.step(here)
            else:
                here = descent.value(here.lam - choice.step * here.g, here.w, here.v)
    except (Arrived, Stuck, bc.AssumptionError):
        return judge.run(str(choice))

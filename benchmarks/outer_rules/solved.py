"""Both levels to given residuals, by the solvers that `minimise` uses: what HOAG and MAID ask for at every point."""

from __future__ import annotations

import torch

from boundcheck.numerics.bilevel.derivatives import linearise, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers import conjugate_gradient, lower_level
from boundcheck.trust.outer_value import OuterValue, Start

LEFT = 0.1  # of the residual, after a Newton step
PLAIN = 20  # steps of Φ where a Newton step does not lower the residual
MOST = 2000


def solved(problem: Problem, start: Start, residual_w: float, residual_v: float) -> OuterValue:
    """‖w − Φ(w)‖ ≤ residual_w, and a linear system with a residual of residual_v·‖∇₁E‖."""
    prepared = Prepared(problem, problem.lam)
    w = start.w
    at, t, products = linearise(problem, w, prepared), 0, 1
    floor = 8 * torch.finfo(w.dtype).eps * float(w.norm().clamp(min=1))
    while (size := float((w - at.y.detach()).norm())) > max(residual_w, floor):
        newton = conjugate_gradient.solve(at.d1_T, w - at.y.detach(), MOST, None, LEFT)
        tried = linearise(problem, w - newton.v, prepared)
        t, products = t + newton.k, products + newton.k + 1
        if not float((tried.x.detach() - tried.y.detach()).norm()) < size:
            z = lower_level.run(problem, prepared.ready, problem.dynamics.start(w), PLAIN).z
            tried = linearise(problem, problem.dynamics.iterate(z), prepared)
            t, products = t + PLAIN, products + PLAIN + 1
        at, w = tried, tried.x.detach()
    outer = outer_gradients(problem, w, prepared.leaves)
    linear = conjugate_gradient.solve(at.d1_T, outer.w, MOST, start.v, residual_v)
    g = prepared.pull_back(tuple(a + b for a, b in zip(outer.lam, at.d2_T(linear.v), strict=True)))
    with torch.no_grad():
        f = float(problem.outer_at(w, prepared.ready))
    return OuterValue(problem.lam, f, 0.0, g, 0.0, w, linear.v, t, linear.k, products + linear.k + 2)

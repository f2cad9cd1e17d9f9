"""f(λ) and ∇f(λ) no more exactly than asked: Newton corrections of w and v until one of them changes little.

A correction solves A s = w − Φ(w) for s, A = I − ∂₁Φ, takes w − s for w, and then solves Aᵀv = ∇₁E(w) from the v it
has. Each linear system is solved until its residual has fallen to `LEFT` of what it was. So a correction takes most of
the error away, and what it changes in the hypergradient estimates the error before it; the result is what comes after
it. As v solves the adjoint system, E(w) − vᵀ(w − Φ(w)) is f up to second order, at no further cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import DivergenceError
from boundcheck.numerics.bilevel.derivatives import Linearisation, linearise, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers import lower_level
from boundcheck.trust.linear_solver import LinearSolver

MOST_CORRECTIONS = 40
PARTS = (1.0, 0.5, 0.25)  # of a correction that are tried
PLAIN = 20  # steps of Φ where none of them helps
ROUNDING = 8  # units of the last place that a sum such as E is taken to be off by


@dataclass(frozen=True, eq=False)
class OuterValue:
    """f and ∇f at one λ, with estimates of their errors, and what they cost.

    `t` and `k` are the products that were spent on w and on v. `products` has them, the evaluations of Φ and the
    products with ∂₂Φ.
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


@dataclass(frozen=True)
class Asked:
    """The accuracy of a hypergradient g: an error of at most max(rtol·norm(g), atol), in that norm."""

    rtol: float
    atol: float
    norm: Callable[[Tensor], float]

    def allows(self, error: float, g: Tensor) -> bool:
        return error <= max(self.rtol * self.norm(g), self.atol)


Evaluate = Callable[[Problem, Tensor, Tensor, Asked], OuterValue]  # at a problem's λ, from a warm start (w, v)


def outer_value(problem: Problem, w: Tensor, v: Tensor, asked: Asked, solver: LinearSolver) -> OuterValue:
    """f and ∇f at `problem.lam` from the warm start (w, v), as exactly as asked by an estimate."""
    prepared = Prepared(problem, problem.lam)
    eps = torch.finfo(problem.dtype).eps
    linearised = linearise(problem, w, prepared)
    t, k, products = 0, 0, 1 + solver.follow(problem, linearised)
    g: Tensor | None = None
    f, f_before, change, error = 0.0, 0.0, float("inf"), float("inf")
    for _ in range(MOST_CORRECTIONS):
        moved = _corrected(problem, prepared, linearised, solver)
        linearised, t, products = moved.linearised, t + moved.t, products + moved.products
        w, left = linearised.x.detach(), moved.left
        outer = outer_gradients(problem, w, prepared.leaves)
        dv, used = solver.solve(linearised, outer.w - (v - linearised.d1_T(v)), transposed=True)
        v = v + dv
        k, products = k + used, products + used + 2
        parts = zip(outer.lam, linearised.d2_T(v), strict=True)
        g_before, g = g, prepared.pull_back(tuple(a + b for a, b in parts))
        with torch.no_grad():
            E = float(problem.outer_at(w, prepared.ready))
        f_before, f = f, E - float(v @ left)
        if not bool(torch.isfinite(g).all()):
            raise DivergenceError(f"{problem.name}: the hypergradient is not finite at this lam; reduce the outer step")
        if g_before is None or not moved.full:  # no correction to compare with
            change = float("inf")
            continue
        change_before, change = change, asked.norm(g - g_before)
        rate = change / change_before if change_before > 0 else 0.0
        error = change * max(1.0, rate / (1 - rate)) if rate < 1 else float("inf")
        if asked.allows(error, g) or change <= ROUNDING * eps * asked.norm(g):
            break
    return OuterValue(problem.lam, f, abs(f - f_before) + ROUNDING * eps * abs(f), g, error, w, v, t, k, products)


@dataclass(frozen=True, eq=False)
class _Moved:
    """Φ at the next w, the residual w − Φ(w) there, whether all of the correction was taken, and what it cost."""

    linearised: Linearisation
    left: Tensor
    full: bool
    t: int
    products: int


def _corrected(problem: Problem, prepared: Prepared, linearised: Linearisation, solver: LinearSolver) -> _Moved:
    """The next w: w − s, or with a part of s that lowers the residual, or after some steps of Φ."""
    w = linearised.x.detach()
    left = w - linearised.y.detach()
    size = float(left.norm())
    if size <= 4 * torch.finfo(w.dtype).eps * float(w.norm()):
        return _Moved(linearised, left, True, 0, 0)
    s, used = solver.solve(linearised, left, transposed=False)
    for tries, part in enumerate(PARTS, 1):
        tried = linearise(problem, w - part * s, prepared)
        left = tried.x.detach() - tried.y.detach()
        if float(left.norm()) < size:
            return _Moved(tried, left, part == 1, used, used + tries)
    z = lower_level.run(problem, prepared.ready, problem.dynamics.start(w), PLAIN).z
    tried = linearise(problem, problem.dynamics.iterate(z), prepared)
    left = tried.x.detach() - tried.y.detach()
    if not bool(torch.isfinite(left).all()):
        raise lower_level.explain_divergence(problem, prepared.ready, problem.dynamics.start(w), PLAIN)
    return _Moved(tried, left, False, used + PLAIN, used + PLAIN + len(PARTS) + 1)

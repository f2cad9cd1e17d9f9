"""MAID: Salehi, Mukherjee, Roberts, Ehrhardt, An adaptively inexact first-order method for bilevel optimization, 2025.

From the paper: the lower level to ‖w − w*‖ ≤ ε and the linear system to a residual δ; the error of the hypergradient z
is at most cε + ‖J‖δ/μ + L_J L_g ε²/μ with c = L_g‖J‖/μ + L_{H⁻¹}‖∇E‖‖J‖ + L_J‖∇E‖/μ (Theorem 2.1); while this is above
(1 − η)‖z‖, ε and δ are made smaller; then a backtracking line search with a decrease that is certain for errors
‖∇E‖ε + ½L_g ε² of f, and smaller ε and δ if it fails. From its published code: η = 1e-4, the factors 0.5 for ε and δ,
0.9 for backtracking, 10 trials, and 1.05 and 10/9 for larger ε, δ and steps after a success; Lipschitz constants from
differences between two points.

Chosen here: all in terms of Φ, so that μ is the least singular value σ of I − ∂₁Φ and ‖J‖ that of ∂₂Φ along v; both
levels by the solvers of `minimise`; the other point is at a tenth of ‖w‖ in a random direction; L_g is the difference
of ∇E there. What these constants cost is not counted. ε and δ start at a tenth of ‖w‖ and of ‖∇E‖, the first step is
that of `minimise`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.derivatives import linearise, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.solvers import conjugate_gradient
from boundcheck.trust import step_rules
from boundcheck.trust.linear_solver import LinearSolver
from boundcheck.trust.outer_value import OuterValue, Start
from outer_rules.judge import Arrived, Judge, Run
from outer_rules.solved import solved

ETA, SMALLER, LARGER, SHORTER, LONGER, TRIALS = 1e-4, 0.5, 1.05, 0.9, 10 / 9, 10
APART = 0.1  # how far the other point is, in ‖w‖
EXACT = 1e-8


def run(judge: Judge) -> Run:
    """Down to tol, from the problem's own λ."""
    with suppress(Arrived, bc.BoundcheckError):
        _descend(judge)
    return judge.run("MAID")


@dataclass(frozen=True)
class _Sizes:
    """‖∇E‖, and the constants of the bound at one point."""

    slope: float
    L_g: float
    J: float
    L_J: float
    L_inverse: float
    sigma: float

    def error(self, eps: float, delta: float) -> float:
        c = self.L_g * self.J / self.sigma + self.L_inverse * self.slope * self.J + self.L_J * self.slope / self.sigma
        return c * eps + self.J * delta / self.sigma + self.L_J * self.L_g * eps**2 / self.sigma

    def of_f(self, eps: float) -> float:
        return self.slope * eps + self.L_g * eps**2 / 2


def _sizes(problem: Problem, at: OuterValue, solver: LinearSolver) -> _Sizes:
    prepared = Prepared(problem, problem.lam)
    generator = torch.Generator().manual_seed(0)
    apart = torch.randn(problem.d, generator=generator, dtype=torch.float64).to(at.w)
    apart = APART * float(at.w.norm()) * apart / apart.norm()

    def there(w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """∇₁E, A⁻ᵀ∇₁E(w) and ∂₂Φᵀv."""
        linearised = linearise(problem, w, prepared)
        b = outer_gradients(problem, w, prepared.leaves).w
        inverse = conjugate_gradient.solve(linearised.d1_T, slope, 2000, None, EXACT).v
        return b, inverse, prepared.pull_back(linearised.d2_T(at.v))

    slope = outer_gradients(problem, at.w, prepared.leaves).w
    here, other = there(at.w), there(at.w + apart)
    solver.follow(problem, linearise(problem, at.w, prepared))
    distance, v, b = float(apart.norm()), float(at.v.norm()), float(slope.norm())
    changes = [float((x - y).norm()) / distance for x, y in zip(here, other, strict=True)]
    return _Sizes(b, changes[0], float(here[2].norm()) / v, changes[2] / v, changes[1] / b, solver.sigma)


def _descend(judge: Judge) -> None:
    problem = quick(judge.problem)
    solver = LinearSolver()
    solver.look(problem, linearise(problem, problem.w0, Prepared(problem, problem.lam)))
    exact = solved(problem, Start(problem.w0, torch.zeros_like(problem.w0)), 0.0, EXACT)  # for units only
    solver.follow(problem, linearise(problem, exact.w, Prepared(problem, problem.lam)))
    eps, delta = 0.1 * float(exact.w.norm()), 0.1
    lam, start = problem.lam, Start(problem.w0, torch.zeros_like(problem.w0))
    alpha = step_rules.FIRST * max(1.0, float(lam.norm())) / float(exact.g.norm())

    def value(lam: Tensor, start: Start) -> OuterValue:
        at = solved(quick(replace(judge.problem, lam=lam)), start, eps * solver.sigma, delta)
        judge.spend(at.products)
        return at

    while True:
        while True:
            at = value(lam, start)
            start = Start(at.w, at.v)
            sizes = _sizes(quick(replace(judge.problem, lam=lam)), at, solver)
            if sizes.error(eps, delta * sizes.slope) <= (1 - ETA) * float(at.g.norm()):
                break
            eps, delta = SMALLER * eps, SMALLER * delta
        judge.see(at)
        for _ in range(TRIALS):
            there = value(lam - alpha * at.g, start)
            if there.f + 2 * sizes.of_f(eps) <= at.f - ETA * alpha * float(at.g.norm()) ** 2:
                lam, start = there.lam, Start(there.w, there.v)
                eps, delta, alpha = LARGER * eps, LARGER * delta, LONGER * alpha
                break
            alpha *= SHORTER
        else:
            eps, delta = SMALLER * eps, SMALLER * delta

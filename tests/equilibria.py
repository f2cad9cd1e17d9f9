"""The equilibrium models, plain and with both paddings, and what tests need of them."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems import conv_equilibrium, equilibrium

Make = Callable[..., Problem]

CASES = {
    "eqm": lambda **options: equilibrium(**options),
    "circular": lambda **options: conv_equilibrium(padding="circular", **options),
    "zeros": lambda **options: conv_equilibrium(padding="zeros", **options),
}
TINY = {  # d = 6 and 16: small enough for finite differences of everything
    "eqm": {"size": 2, "hidden": 3, "features": 2},
    "circular": {"size": 1, "hidden": 1},
    "zeros": {"size": 1, "hidden": 1},
}
# Sums of at most 100 products of numbers below 10, of which two orders of summation differ by far less than this
EPS = 1e-12


def fixed_point(problem: Problem, lam: Tensor) -> Tensor:
    """Iterates until ‖w − w(λ)‖ ≤ 1e-13, by the residual and q."""
    ready = problem.prepare(lam)
    q, w = problem.contraction(ready), problem.w0
    while (step := (after := problem.phi_at(w, ready)) - w).norm() > 1e-13 * (1 - q):
        w = w + step
    return after


def without_drive(problem: Problem) -> Tensor:
    """λ with B (or K') and c at zero, so that tanh is met where it is steepest."""
    lam = problem.lam.clone()
    lam[linear(problem) :] = 0
    return lam


def linear(problem: Problem) -> int:
    """How many entries of λ are A or K."""
    ready = problem.prepare(problem.lam)
    return ready[0].numel()

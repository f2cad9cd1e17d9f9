"""The step α of Φ = w − α∇₁ℓ as a constant."""

from __future__ import annotations

import math
from functools import lru_cache

from torch import Tensor

from boundcheck.constants import Constant, Provenance
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import rounding_proof_matrices
from boundcheck.numerics.estimate.rounding_proof import NoProof
from boundcheck.numerics.program.rounding_rules.ball import Ball
from boundcheck.side import Side

NOTHING = 1e-9  # a constant counts as exact if its relative rounding is at most this


def step_constant(problem: Problem) -> Constant | None:
    """Return α at the λ of the problem; None if Φ has no step. A given number is exact, a computed α is enclosed."""
    if problem.step_at is None:
        return None
    how, value = "the step of Φ = w − α∇₁ℓ", problem.step_at(problem.prepare(problem.lam))
    if not isinstance(value, Tensor):
        return Constant("alpha", value, Side.EXACT, Provenance(how))
    ball = rounding_proof_matrices.of_step(problem)
    if isinstance(ball, NoProof):
        how = f"{how}; rounding not proved: {ball.reason}"
        return Constant("alpha", float(value.detach()), Side.LOWER, Provenance(how))
    near = _off(ball, value) <= NOTHING * float(ball.mid)
    return Constant("alpha", float(ball.mid), Side.EXACT if near else Side.LOWER, Provenance(how))


def _off(ball: Ball, value: Tensor) -> float:
    return float(ball.rad + (ball.mid - value.detach().cpu()).abs()) * (1 + 1e-12)


@lru_cache(maxsize=32)
def step_rounding(problem: Problem) -> float:
    """Return a bound on the distance of the exact and of the computed α from the value of an exact `step_constant`."""
    value = None if problem.step_at is None else problem.step_at(problem.prepare(problem.lam))
    if not isinstance(value, Tensor):
        return 0.0
    ball = rounding_proof_matrices.of_step(problem)
    return math.inf if isinstance(ball, NoProof) else _off(ball, value)

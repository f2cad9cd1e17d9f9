"""Bounds on the residuals of a reference: proved if every operation has a rule, otherwise estimated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import residual_balls, rounding_noise, rounding_proof
from boundcheck.numerics.estimate.program_at_point import AtPoint, at_point
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.rounding_proof import NoProof
from boundcheck.numerics.estimate.step_constant import step_constant
from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.solvers.reference import ReferenceSolution

UNITS = 8  # an estimate adds this many ε times the size of the numbers to the scatter by random errors


@dataclass(frozen=True)
class ResidualBounds:
    """Bounds on the exact residuals and on the rounding of ∇f. If they are only estimates, `doubt` says why."""

    w: float  # ‖w − Φ(w)‖
    v: float  # ‖v − ∂₁Φᵀv − ∇₁E‖
    g: float  # ‖value − (∇₂E + ∂₂Φᵀv)‖
    doubt: str = ""
    how: str = "running error analysis"


@torch.no_grad()
def _from_program(point: AtPoint, v: Tensor, value: Tensor) -> ResidualBounds:
    """Return bounds from the matrices of the program. A product rounds by at most γ times the product of the sizes."""
    v, value = v.cpu().double(), value.cpu().double()
    size, unit = norm(v), gamma(len(v) + 4)
    A, Z = point.A, point.Z
    of_v = A.value.T @ v - point.of_w.value
    of_g = value - (point.of_lam.value + Z.value.T @ v)
    rounding_v = A.off * size + point.of_w.off + unit * (frobenius(A.value) * size + norm(point.of_w.value))
    rounding_g = Z.off * size + point.of_lam.off
    rounding_g += unit * (frobenius(Z.value) * size + norm(point.of_lam.value) + norm(value))
    return ResidualBounds(
        (norm(point.residual.value) + point.residual.off) * UP,
        (norm(of_v) + rounding_v) * UP,
        (norm(of_g) + rounding_g) * UP,
    )


@lru_cache(maxsize=32)
def of(problem: Problem, solution: ReferenceSolution) -> ResidualBounds:
    """Return bounds on the residuals of a reference at the λ of the problem.

    Parameters
    ----------
    problem : Problem
        The problem.
    solution : ReferenceSolution
        A reference with one row.

    Returns
    -------
    ResidualBounds
        Proved by arb balls if possible. They need python-flint, a rule for each operation, and few enough numbers.
        Otherwise proved by running error analysis, or from the matrices of the program. If no proof works, an estimate:
        the computed residual plus a few units of rounding and the scatter in arithmetic with random errors.
    """
    w, v, value = solution.w[0], solution.v[0], solution.value[0]
    narrow = residual_balls.proved(problem, w, v, value)
    if not isinstance(narrow, NoProof):
        return ResidualBounds(narrow.residual_w, narrow.residual_v, narrow.error_g, how=residual_balls.HOW)
    proof = rounding_proof.proved(problem, w, v, value)
    if not isinstance(proof, NoProof):
        return ResidualBounds(proof.residual_w, proof.residual_v, proof.error_g)
    point = at_point(ProgramProof.of(problem), w, step_constant(problem))
    if isinstance(point, AtPoint):
        return _from_program(point, v, value)
    noise = rounding_noise.measured(problem, w, v)
    if not math.isfinite(noise.w + noise.v + noise.g):  # a run with random errors failed, so the scatter is unknown
        noise = rounding_noise.Rounding(0.0, 0.0, 0.0)
    unit = UNITS * torch.finfo(problem.dtype).eps
    sizes = [float(x.norm()) for x in (w, v, value)]
    return ResidualBounds(
        float(solution.residual_w[0]) + unit * sizes[0] + noise.w,
        float(solution.residual_v[0]) + unit * 2 * sizes[1] + noise.v,
        unit * sizes[2] + noise.g,
        f"rounding is not proved: {proof.reason}",
    )

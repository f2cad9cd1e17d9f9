"""Derivatives of a problem at one point, from its program, each with a bound on its rounding.

The bound is on the distance from the derivative in exact arithmetic on the stored numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.derivatives import DENSE
from boundcheck.numerics.estimate.program_proof import MOST_LAM, ProgramProof
from boundcheck.numerics.estimate.step_constant import step_rounding
from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma
from boundcheck.numerics.program.enclosure.curvature_form import Curvature
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.value import LAM, Value, W
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.side import Side

MOST = 4_000_000  # the most entries of ∂₂Φ


@dataclass(frozen=True, eq=False)
class Enclosed:
    """A tensor, and a bound `off` on its distance from the exact one in the Euclidean or Frobenius norm."""

    value: Tensor
    off: float


@dataclass(frozen=True, eq=False)
class AtPoint:
    """The residual w − Φ, I − ∂₁Φ, ∂₂Φ, ∇₁E and ∇₂E at the stored w."""

    residual: Enclosed
    A: Enclosed
    Z: Enclosed
    of_w: Enclosed
    of_lam: Enclosed


@torch.no_grad()
def at_point(proof: ProgramProof, w: Tensor, alpha: Constant | None) -> AtPoint | str:
    """Return the derivatives at w, or the reason for having none."""
    problem = proof.problem
    d, n = problem.d, problem.n
    if d > DENSE or d * n > MOST or n > MOST_LAM:
        return f"d = {d} and n = {n} are too large for matrices"
    if proof.has_loss and (alpha is None or alpha.side is not Side.EXACT or not problem.frozen_step):
        return "the step is not known exactly, or is differentiated"
    try:
        lower, outer = proof.lower_bounds(w, 0.0), proof.outer_bounds(w, 0.0)
        E = outer.over.output
        of_w, of_lam = slope_of(E, W, d), slope_of(E, LAM, n)
        if isinstance(lower, MapBounds):
            phi = lower.output
            Y, Z = _matrix(phi, W, d, d), _matrix(phi, LAM, d, n)
            eye = torch.eye(d, dtype=torch.float64)
            A = Enclosed(eye - Y.value, (Y.off + gamma(2) * (d**0.5 + frobenius(Y.value))) * UP)
            stored = w.cpu().double()
            gap = stored - phi.centre.mid.reshape(-1)
            residual = Enclosed(gap, (norm(phi.centre.rad) + gamma(2) * (norm(stored) + norm(gap))) * UP)
        else:
            assert alpha is not None
            a, ell, off = alpha.value, lower.over.output, step_rounding(problem)
            H, C = (sum_of(lower.over.curvature(pair), shape) for pair, shape in (((W, W), (d, d)), ((W, LAM), (d, n))))
            slope = slope_of(ell, W, d)
            A, Z, residual = _times(H, a, off), _times(C, -a, off), _times(slope, a, off)
    except Declined as why:
        return str(why)
    answer = AtPoint(residual, A, Z, of_w, of_lam)
    parts = (residual, A, Z, of_w, of_lam)
    if not all(math.isfinite(part.off) and bool(part.value.isfinite().all()) for part in parts):
        return "a derivative at w* is not finite"
    return answer


def _times(x: Enclosed, a: float, off: float) -> Enclosed:
    """Return x times a number that is within `off` of a."""
    size = frobenius(x.value)
    return Enclosed(a * x.value, (abs(a) * (x.off + gamma(2) * size) + off * (size + x.off)) * UP)


def slope_of(value: Value, slot: str, size: int) -> Enclosed:
    """Return the gradient of a scalar by one input."""
    slope = value.slopes.get(slot)
    if slope is None:
        return Enclosed(torch.zeros(size, dtype=torch.float64), 0.0)
    return Enclosed(slope.F.reshape(-1), float(slope.slip) * UP)


def _matrix(value: Value, slot: str, rows: int, columns: int) -> Enclosed:
    slope = value.slopes.get(slot)
    if slope is None:
        return Enclosed(torch.zeros(rows, columns, dtype=torch.float64), 0.0)
    return Enclosed(slope.matrix, norm(slope.slip))


def sum_of(parts: list[Curvature], shape: tuple[int, int]) -> Enclosed:
    """Return D²f as the sum of its parts.

    The slack of a part bounds an error in the spectral norm. In the Frobenius norm, the error is at most √rank times as
    large.
    """
    if not parts:
        return Enclosed(torch.zeros(shape, dtype=torch.float64), 0.0)
    off = math.fsum(part.slack for part in parts) * min(shape) ** 0.5
    lo = sum((part.lo for part in parts[1:]), parts[0].lo)
    sizes = math.fsum(frobenius(part.lo) for part in parts)
    if all(part.up is part.lo for part in parts):
        return Enclosed(lo, (off + gamma(len(parts) + 2) * 2 * sizes) * UP)
    up = sum((part.up for part in parts[1:]), parts[0].up)
    off += frobenius(up - lo) / 2 + gamma(len(parts) + 2) * (sizes + math.fsum(frobenius(part.up) for part in parts))
    return Enclosed(lo / 2 + up / 2, off * UP)

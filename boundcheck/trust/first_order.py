"""How far a point of AID is off, by what the next one shows: an estimate to first order."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.constants import Constant, Provenance
from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program.lower_precision import coarsest
from boundcheck.numerics.solvers import lower_level
from boundcheck.side import Side
from boundcheck.trust.aid_point import AidPoint

UNITS = 8  # of rounding in a vector
RESTS = 100  # units of rounding in ‖w − Φ(w)‖ of a w that is at rest
STALLED = 3  # points in a row that are no better than the ones before: only rounding is left


def unit_of_rounding(problem: Problem, w: Tensor) -> float:
    """What rounding does to a vector, relative to it: `UNITS` of w, and one of a lower precision in Φ or E at w."""
    own = float(torch.finfo(w.dtype).eps)
    if isinstance(problem.known, ClosedForms):
        return UNITS * own
    generator = torch.Generator().manual_seed(0)

    def run() -> None:  # derivatives too, as they are cast back
        at = w.detach().clone().requires_grad_(), problem.lam.detach().clone().requires_grad_()
        ready = problem.prepare(at[1])
        for value in (problem.phi_at(at[0], ready), problem.outer_at(at[0], ready)):
            if value.requires_grad:
                along = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
                torch.autograd.grad(value, at, along, allow_unused=True, retain_graph=True)

    lower = coarsest(w.dtype, run)
    return UNITS * own if lower is w.dtype else float(torch.finfo(lower).eps)


def sensitivity_of(gap: float, point: AidPoint) -> float:
    """By how much g moved with the residual of w, which is taken as no smaller than its rounding."""
    info = torch.finfo(point.w.dtype)
    least = RESTS * info.eps * float(point.w.norm())
    return gap / max(float(point.excess.norm()), least, info.tiny)


def estimate(
    gaps: list[float], sensitivity: float, point: AidPoint, following: AidPoint, unit: float
) -> Constant | None:
    """How far the next point itself may be off; None where it is not closer to a fixed point than the one before.

    It is the part of the gap that the residuals of w and v, or the gaps before, leave; the part of the implicit term
    that the residual of v leaves; and what rounding of w and g may do, if it acts on g as the residuals of the points
    so far. `unit` is what rounding does to a vector, relative to it.
    """
    info = torch.finfo(point.w.dtype)
    excess = float(point.excess.norm().clamp(min=info.tiny))
    least = RESTS * info.eps * float(point.w.norm())  # a residual of this size is rounding
    left = float(following.excess.norm()) / max(excess, least, info.tiny)
    if len(gaps) > 1 and gaps[-2] > 0:
        left = max(left, min(gaps[-1] / gaps[-2], 0.5))
    if point.linear_residual > 0:
        left = max(left, min(following.linear_residual / point.linear_residual, 0.5))
    of_w = _part(following.error_w, following.w - point.w)
    left = max(left, min(of_w, float(following.excess.norm()) / least if least > 0 else math.inf))
    implicit = float(lower_level.length(following.value - following.direct))
    of_v = _part(following.error_v, following.v)
    of_change = _part(following.error_v, following.v - point.v)
    if of_change <= 0.5:
        of_v = min(of_v, gaps[-1] * of_change / (1 - of_change) / implicit if implicit > 0 else 0.0)
    linear = implicit * max(following.linear_residual, of_v)
    size = float(lower_level.length(following.value))
    rounding = unit * (size + sensitivity * float(point.w.norm()))
    value = gaps[-1] * left / (1 - left) + linear + rounding if left <= 0.5 else math.inf
    if not math.isfinite(value):
        return None
    return Constant("eps_g", value, Side.LOWER, Provenance("the residuals of two points, to first order"))


def _part(error: float, of: Tensor) -> float:
    """An error in units of the length of a vector."""
    if error == 0:
        return 0.0
    length = float(lower_level.length(of))
    return error / length if length > 0 else math.inf


def fell(point: AidPoint, following: AidPoint) -> bool:
    """Is the residual of w at rest, or on its way there?"""
    rest = RESTS * torch.finfo(point.w.dtype).eps * float(point.w.norm())
    return halved(point, following) or float(following.excess.norm()) <= rest


def halved(point: AidPoint, following: AidPoint) -> bool:
    """Is the residual of w at most half of that before?"""
    return float(following.excess.norm()) <= 0.5 * float(point.excess.norm())


def stalled(errors: list[float]) -> bool:
    """Did the last points bring nothing?"""
    return len(errors) > STALLED and min(errors[-STALLED:]) >= 0.5 * min(errors[:-STALLED])

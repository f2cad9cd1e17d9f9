"""Estimate the error of an AID point to first order, from the next point."""

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

UNITS = 8  # the rounding of a vector, in rounding units
RESTS = 100  # w has converged if ‖w − Φ(w)‖ is at most this many rounding units of w
STALLED = 3  # a run has stalled if this many points in a row are no better than the points before


def unit_of_rounding(problem: Problem, w: Tensor) -> float:
    """The relative rounding of a vector: `UNITS` units of w's dtype, or one unit of a lower precision inside Φ or E."""
    own = float(torch.finfo(w.dtype).eps)
    if isinstance(problem.known, ClosedForms):
        return UNITS * own
    generator = torch.Generator().manual_seed(0)

    def run() -> None:  # differentiate too, because derivatives are cast back
        at = w.detach().clone().requires_grad_(), problem.lam.detach().clone().requires_grad_()
        ready = problem.prepare(at[1])
        for value in (problem.phi_at(at[0], ready), problem.outer_at(at[0], ready)):
            if value.requires_grad:
                along = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
                torch.autograd.grad(value, at, along, allow_unused=True, retain_graph=True)

    lower = coarsest(w.dtype, run)
    return UNITS * own if lower is w.dtype else float(torch.finfo(lower).eps)


def sensitivity_of(gap: float, point: AidPoint) -> float:
    """The change of g divided by the residual of w, which counts as at least its rounding."""
    info = torch.finfo(point.w.dtype)
    least = RESTS * info.eps * float(point.w.norm())
    return gap / max(float(point.excess.norm()), least, info.tiny)


def estimate(
    gaps: list[float], sensitivity: float, point: AidPoint, following: AidPoint, unit: float
) -> Constant | None:
    """Estimate the error of the next point; None if it is not closer to a fixed point than the point before.

    The estimate is the sum of three parts: the share of the gap that the residuals of w and v, or the gaps before,
    leave; the share of the implicit term that the residual of v leaves; and the rounding of w and g, if rounding acts
    on g like the residuals of the points so far. `unit` is the relative rounding of a vector.
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
    """An error relative to the length of a vector."""
    if error == 0:
        return 0.0
    length = float(lower_level.length(of))
    return error / length if length > 0 else math.inf


def fell(point: AidPoint, following: AidPoint) -> bool:
    """Whether the residual of w has converged or is still falling."""
    rest = RESTS * torch.finfo(point.w.dtype).eps * float(point.w.norm())
    return halved(point, following) or float(following.excess.norm()) <= rest


def halved(point: AidPoint, following: AidPoint) -> bool:
    """Whether the residual of w is at most half of the residual before."""
    return float(following.excess.norm()) <= 0.5 * float(point.excess.norm())


def stalled(errors: list[float]) -> bool:
    """Whether the last points brought no progress."""
    return len(errors) > STALLED and min(errors[-STALLED:]) >= 0.5 * min(errors[:-STALLED])

"""Compute the summary of a report: the numbers of each method, and sentences about them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from boundcheck.ball import BallKind
from boundcheck.report import advice
from boundcheck.report.extrapolation import expected
from boundcheck.report.method_curve import Curve
from boundcheck.report.summary import BestBound, Course, MethodSummary, StepsNeeded, Summary
from boundcheck.report.verdict import Verdict
from boundcheck.side import standing

if TYPE_CHECKING:
    from boundcheck.report.report import Report

ONE_PERCENT = 0.01
ORDER = (Verdict.HOLDS, Verdict.HOLDS_PROBABLY, Verdict.CONSISTENT)  # from the most certain bound to the least


def summarise(report: Report) -> Summary:
    """Summarise a report.

    Parameters
    ----------
    report : Report
        The report.

    Returns
    -------
    Summary
        Facts and sentences for the first screen.
    """
    methods = tuple(_method(report, curve) for curve in report.curves.values())
    return Summary(
        verdict=report.verdict,
        verdict_sentence=advice.verdict_sentence(report),
        methods=methods,
        step_sentence=advice.step_sentence(report),
        next_steps=advice.next_steps(report, methods),
    )


def _method(report: Report, curve: Curve) -> MethodSummary:
    errors, last, best, course = curve.errors[:, -1], curve.last, _best(curve), _course(report, curve)
    with np.errstate(invalid="ignore"):
        relative = _relative(report, curve)
    return MethodSummary(
        method=curve.method,
        t=int(curve.t[-1]),
        k=None if curve.k is None else int(curve.k[-1]),
        error=float(errors.mean()),
        relative_error=None if relative is None else float(relative[:, -1].mean()),
        known=standing(report.enclosure(curve.method).side),
        angle=None if last is None else last.angle,
        descent=None if last is None else last.descent,
        course=course,
        best=best,
        blocked="" if best is not None and best.known == "proved" else _blocked(curve),
        steps=_steps(curve, course, relative),
    )


def _relative(report: Report, curve: Curve) -> np.ndarray | None:
    """Errors in units of ‖∇f‖, samples × T; None if some ‖∇f‖ is unknown or not larger than its own error."""
    norms = np.array(report.gradient_norms)
    if len(norms) != len(curve.errors) or not np.isfinite(norms).all():
        return None
    doubt = np.array([0.0 if eps_g is None else eps_g.value for eps_g in report.certificates])
    if not (norms > np.maximum(doubt, curve.floor.min(axis=1))).all():
        return None
    scaled: np.ndarray = curve.errors / norms[:, None]
    return scaled


def _course(report: Report, curve: Curve) -> Course:
    last = curve.errors[:, -1]
    if (np.isfinite(last) & (last <= curve.floor[:, -1])).all():
        return Course.ROUNDING
    if curve.falls:
        local = report.constants[BallKind.LOCAL]
        q, q_star = (local.get(name) for name in ("q", "q_star"))
        near = q_star is not None and q_star.value < 1 and curve.still_falls
        return Course.CONVERGES if near or (q is not None and q.value < 1) else Course.FALLS
    return Course.DIVERGES if curve.method in report.diverging else Course.STALLS


def _best(curve: Curve) -> BestBound | None:
    bounds = [b for b in curve.bounds.values() if b.verdict in ORDER]
    if not bounds:
        return None
    bound = min(bounds, key=lambda b: (ORDER.index(b.verdict), b.at_end))
    ratio = bound.at_end
    return BestBound(bound.name, str(bound.kind.value), standing(bound.side), ratio if math.isfinite(ratio) else None)


def _blocked(curve: Curve) -> str:
    """Why no bound is proved: the reason of the bound with the fewest assumptions, or of any bound.

    The remedy is left out, because it may contradict the step size that the report recommends.
    """
    name = curve.method.partition(":")[0]
    for candidate in (f"{name}-local", "aid-local", name, *curve.bounds):
        if candidate in curve.bounds and curve.bounds[candidate].reason:
            return f"{candidate}: {curve.bounds[candidate].reason.partition('; ')[0]}"
    return ""


def _steps(curve: Curve, course: Course, relative: np.ndarray | None) -> StepsNeeded:
    proved = [b for b in curve.bounds.values() if b.verdict is Verdict.HOLDS]
    enough = [t for b in proved if (t := b.asks_relative.get(ONE_PERCENT)) is not None]
    guaranteed = min(enough, default=None)
    if relative is None:
        return StepsNeeded(None, False, guaranteed)
    largest = relative.max(axis=0)
    above = np.flatnonzero(~(largest <= ONE_PERCENT))
    last = int(above[-1]) + 1 if above.size else 0
    if last < len(largest):
        return StepsNeeded(last + 1, True, guaranteed, last + 1, last + 1)
    guess = expected(largest, ONE_PERCENT) if course is Course.CONVERGES else None
    return (
        StepsNeeded(None, False, guaranteed)
        if guess is None
        else StepsNeeded(guess.t, False, guaranteed, guess.earliest, guess.latest)
    )

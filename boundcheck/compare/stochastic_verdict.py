"""Verdicts on means that were measured with a confidence interval.

A bound *holds* if the upper end of a proved interval is below it. It is *violated* if the bound is certified and the
lower end is above it. Otherwise the reason says what is undecided, and how many more runs would decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boundcheck.compare.measure_stochastic import PointEstimate
from boundcheck.compare.runs_needed import Needed, runs_needed
from boundcheck.compare.stochastic_bounds import Evaluated
from boundcheck.number_text import number
from boundcheck.report.stochastic_curve import MeanEstimate, Measured, StochasticBound
from boundcheck.report.verdict import FORMULA_ROUNDING, Verdict
from boundcheck.side import Side

SQUARES = frozenset((Measured.MSE, Measured.VARIANCE_GIVEN_W, Measured.VARIANCE_OF_MEAN, Measured.DISTANCE))
NEED_RANGE = frozenset((Measured.BIAS, Measured.VARIANCE_OF_MEAN))  # their lower ends are proved only with a range


@dataclass(frozen=True, eq=False)
class MeasuredQuantity:
    """The measurements of one quantity, and the inputs of its intervals.

    Attributes
    ----------
    mean : MeanEstimate
        The estimates and their intervals.
    points : sequence of PointEstimate
        The estimates at each point, with the variance of the numbers.
    t : ndarray of shape (points,)
        The steps at each point.
    floor : ndarray of shape (points,)
        The rounding floor of the root of the quantity (or of the bias itself).
    largest : float or None
        An upper bound on the numbers whose mean is the quantity; None if unknown.
    delta : float
        The probability that an end of an interval is wrong.
    runs : int
        The number of runs.
    reference_doubt : str
        Why the reference is not certified; empty if it is certified.
    """

    mean: MeanEstimate
    points: Sequence[PointEstimate]
    t: np.ndarray
    floor: np.ndarray
    largest: float | None
    delta: float
    runs: int
    reference_doubt: str


@dataclass(frozen=True)
class Decision:
    """A verdict with its reason."""

    verdict: Verdict
    reason: str = ""
    more_runs: int | None = None


def judge(evaluated: Evaluated, evidence: MeasuredQuantity) -> StochasticBound:
    """Give a bound its verdict."""
    quantity, bound, worth = evidence.mean.quantity, evaluated.bound, evaluated.worth
    side = Side.LOWER if evaluated.doubt else worth.side
    decision = _decide(evaluated, evidence, side)
    return StochasticBound(
        bound.name, bound.title, str(bound.reference), quantity, evaluated.values, side, worth.delta, worth.weakest,
        decision.verdict, decision.reason, decision.more_runs,
    )  # fmt: skip


def _decide(evaluated: Evaluated, evidence: MeasuredQuantity, side: Side) -> Decision:
    values, mean = evaluated.values, evidence.mean
    applies = ~np.isnan(values)
    if evaluated.refusal or not applies.any():
        return Decision(Verdict.NOT_APPLICABLE, evaluated.refusal or "it says nothing at these t")
    limit = _with_floor(values, evidence)
    certified = side is not Side.LOWER
    above = applies & (mean.lower > limit)
    lower_proved = not evidence.reference_doubt and (mean.quantity not in NEED_RANGE or mean.proved)
    if above.any():
        where = f"t = {evidence.t[above][0]}"
        if certified and lower_proved:
            return Decision(Verdict.VIOLATED_PROBABLY, f"the whole interval is above the bound at {where}")
        return Decision(
            Verdict.INCONCLUSIVE, f"above the bound at {where}, but {_weak(evaluated, evidence, certified)}"
        )
    undecided = applies & ~(mean.upper <= limit)
    if not undecided.any():
        if certified and mean.proved:
            return Decision(Verdict.HOLDS_PROBABLY, "the whole interval is below the bound at every t")
        return Decision(Verdict.CONSISTENT, _weak(evaluated, evidence, certified))
    points = np.flatnonzero(undecided)
    below = bool((mean.value[points] <= limit[points]).any())
    may_decide = certified and lower_proved and (mean.proved or not below)
    return _undecided(limit, evidence, points, "" if may_decide else _weak(evaluated, evidence, certified))


def _weak(evaluated: Evaluated, evidence: MeasuredQuantity, certified: bool) -> str:
    """Why nothing is proved."""
    if evaluated.doubt:
        return evaluated.doubt
    if not certified:
        return f"{', '.join(evaluated.worth.weakest)} may be too small"
    if evidence.reference_doubt:
        return evidence.reference_doubt
    return f"the interval is that of {evidence.mean.how}"


def _undecided(limit: np.ndarray, evidence: MeasuredQuantity, where: np.ndarray, weak: str) -> Decision:
    """The decision if the bound is inside an interval; `weak` says why even a better interval would prove nothing."""
    mean, i = evidence.mean, int(where[0])
    t, ends = evidence.t[i], f"{number(float(mean.lower[i]))} … {number(float(mean.upper[i]))}"
    reason = f"undecided at t = {t}: the bound {number(float(limit[i]))} is inside the interval {ends}"
    verdict = Verdict.CONSISTENT if bool((mean.value[where] <= limit[where]).all()) else Verdict.INCONCLUSIVE
    if weak:
        return Decision(verdict, f"{reason}, and {weak}")
    needed = [_runs(limit[j], evidence, int(j)) for j in where]
    counts = [n.runs for n in needed if n is not None]
    if len(counts) < len(needed):
        return Decision(verdict, f"{reason}, and more than 10⁹ runs would be needed to decide")
    more = max(0, max(counts) - evidence.runs)
    if more:
        about = "at least" if any(n is not None and n.at_least for n in needed) else "about"
        reason += f"; {about} {more} more runs would decide"
    return Decision(verdict, reason, more or None)


def _runs(limit: float, evidence: MeasuredQuantity, i: int) -> Needed | None:
    mean, point = evidence.mean, evidence.points[i]
    if evidence.largest is None:
        return None
    return runs_needed(
        mean.quantity, point.value, point.variance, limit, evidence.largest, evidence.delta, evidence.runs,
        point.mean_square,
    )  # fmt: skip


def _with_floor(values: np.ndarray, evidence: MeasuredQuantity) -> np.ndarray:
    """The bound plus the rounding of the quantity."""
    limit: np.ndarray = values * (1 + FORMULA_ROUNDING)
    if evidence.mean.quantity not in SQUARES:
        above: np.ndarray = limit + evidence.floor
        return above
    root: np.ndarray = np.sqrt(limit) + evidence.floor
    with np.errstate(over="ignore"):
        square: np.ndarray = np.square(root)
    return square

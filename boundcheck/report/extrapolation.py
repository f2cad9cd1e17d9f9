"""Estimate the t at which a run that was too short would reach an accuracy, with an interval for this t.

Errors need not shrink at a constant rate: Krylov methods become faster, and sums of modes become slower. So the
estimate uses the rate over the last part of the run, and the interval uses the rates over longer parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from boundcheck.report.tightness import SHORTEST_LINE

PARTS = (2, 3, 6)  # the last half, third and sixth of the run; the last one gives the estimate
MARGIN = 0.25  # the interval extends at least this share of the missing steps to either side
FARTHEST = 1e6  # no estimate if more steps than this are missing


@dataclass(frozen=True)
class Expected:
    """An estimate of a t, and an interval for it; `latest` is None if no upper end can be estimated."""

    t: int
    earliest: int
    latest: int | None


def expected(errors: np.ndarray, goal: float) -> Expected | None:
    """The t at which errors at 1 … T would be within `goal`; None if they do not fall at the end, or t is too large."""
    T = len(errors)
    if T < SHORTEST_LINE or not (np.isfinite(errors) & (errors > 0)).all():
        return None
    *longer, best = [_missing(errors[-max(SHORTEST_LINE, T // part) :], goal) for part in PARTS]
    if best is None:
        return None
    estimates = [missing for missing in longer if missing is not None] + [(1 - MARGIN) * best, (1 + MARGIN) * best]
    latest = T + math.ceil(max(estimates)) if None not in longer else None
    return Expected(T + math.ceil(best), T + max(1, math.floor(min(estimates))), latest)


def _missing(errors: np.ndarray, goal: float) -> float | None:
    """The number of missing steps at the rate of these errors; None if it is too large or the errors do not fall."""
    slope = float(np.polyfit(np.arange(len(errors)), np.log(errors), 1)[0])
    missing = math.log(goal / errors[-1]) / slope if slope < 0 else math.inf
    return missing if missing < FARTHEST else None

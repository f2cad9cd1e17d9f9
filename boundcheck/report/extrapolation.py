"""The t at which a run that was too short would reach an accuracy, and how far off that estimate may be.

Errors need not shrink at one rate: Krylov methods become faster, and sums of modes slower. So the rate is that of the
last part of the run, and that of longer parts tells how much it changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from boundcheck.report.tightness import SHORTEST_LINE

PARTS = (2, 3, 6)  # the last half, third and sixth of the run; the last one gives the estimate
MARGIN = 0.25  # share of the steps that are missing by which an estimate may always be off
FARTHEST = 1e6  # steps beyond which a measured rate says nothing


@dataclass(frozen=True)
class Expected:
    """An estimate of a t, and between which t it may be; `latest` is None if that cannot be said."""

    t: int
    earliest: int
    latest: int | None


def expected(errors: np.ndarray, goal: float) -> Expected | None:
    """When errors at t = 1 … T would be within `goal`; None if they do not fall at the end, or it is too far away."""
    T = len(errors)
    if T < SHORTEST_LINE or not (np.isfinite(errors) & (errors > 0)).all():
        return None
    *longer, best = [_missing(errors[-max(SHORTEST_LINE, T // part) :], goal) for part in PARTS]
    if best is None:
        return None
    every = [missing for missing in longer if missing is not None] + [(1 - MARGIN) * best, (1 + MARGIN) * best]
    latest = T + math.ceil(max(every)) if None not in longer else None
    return Expected(T + math.ceil(best), T + max(1, math.floor(min(every))), latest)


def _missing(errors: np.ndarray, goal: float) -> float | None:
    """How many more steps are needed at the rate of these errors."""
    slope = float(np.polyfit(np.arange(len(errors)), np.log(errors), 1)[0])
    missing = math.log(goal / errors[-1]) / slope if slope < 0 else math.inf
    return missing if missing < FARTHEST else None

"""Rows of a run that was never run, for tests of what shows them."""

from __future__ import annotations

import math

import numpy as np

from boundcheck.constants import Constant
from boundcheck.report.accuracy import accuracy
from boundcheck.report.enclosure import Enclosure
from boundcheck.report.run_step import DistanceBound, Enough, RunStep
from boundcheck.report.run_trace import RunTrace
from boundcheck.side import Side


def row(step: int, *, side: Side = Side.UPPER, rtol: bool = False) -> RunStep:
    reference = np.array([1.0, 1.0])
    g = reference + 2.0**-step * np.array([0.5, -0.25])
    away = Enclosure(np.float64(0.5**step), np.float64(0.5**step * 1.01), side)
    return RunStep(
        step,
        lam_step=0.1 if step else math.nan,
        accuracy=accuracy(g, reference, Constant("eps_g", 1e-9, side)),
        f=3.0 - 0.1 * step,
        decrease=0.1 if step else math.nan,
        r_0=away,
        r_t=away,
        bound=DistanceBound("warm-start", 0.6**step * 1.1, side),
        from_residual=DistanceBound("warm-start", 0.6**step * 2, side),
        estimate=DistanceBound("warm-drift", 0.55**step, Side.LOWER) if step else None,
        t=5,
        k=4,
        enough=Enough(5 + step, 5 + step) if rtol else None,
        seconds=0.25,
    )


def trace(steps: int = 4, *, side: Side = Side.UPPER, rtol: float | None = None, warm: bool | None = True) -> RunTrace:
    rows = tuple(row(step, side=side, rtol=rtol is not None) for step in range(steps))
    return RunTrace("made", rows, rtol, "aid-cg", warm)


BROKEN = RunStep(2, why='ValueError: "no", it said')

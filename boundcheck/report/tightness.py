"""Compare a bound with the error: their ratio, the rates of both, and the iterations for given accuracies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from boundcheck.errors import AssumptionError
from boundcheck.report.method_curve import MeasuredRate
from boundcheck.report.verdict import compared

ACCURACIES = tuple(10.0**-i for i in range(1, 9))
RELATIVE = (0.1, 0.01, 0.001)  # accuracies in units of ‖∇f‖
LINEAR = 0.999  # a line has at least this R²
SHORTEST_LINE = 8  # a line has at least this many points
LONGEST_BOUND = 1 << 20  # a bound is evaluated up to this many iterations
LONGEST_RECURSION = 1 << 15  # the limit for a bound that is computed step by step


def ratio(values: np.ndarray, errors: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """bound/error at the points that are compared; NaN where rounding decides (see `verdict.compared`)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(compared(errors, values, floor), values / errors, np.nan)


def rate(errors: np.ndarray, floor: np.ndarray) -> MeasuredRate | None:
    """The slope of log(error) on the longest line that ends where the floor is reached.

    t counts from 1. The line is the longest window with R² ≥ `LINEAR` among the windows that end at the last point
    above the floor. If there is none, it is the last third of these points, which excludes a fast start.
    """
    clear = np.isfinite(errors) & (errors > floor)
    count = int(np.argmin(clear)) if not clear.all() else len(clear)
    if count < SHORTEST_LINE:
        return None
    t, y = np.arange(1, count + 1, dtype=float), np.log(errors[:count])
    starts = np.unique(np.linspace(0, count - SHORTEST_LINE, 64).astype(int))
    for start in starts:
        slope, fit = _line(t[start:], y[start:])
        if fit >= LINEAR:
            return MeasuredRate(float(np.exp(slope)), int(start) + 1, count)
    start = max(0, min(count - SHORTEST_LINE, 2 * count // 3))
    return MeasuredRate(float(np.exp(_line(t[start:], y[start:])[0])), start + 1, count)


def _line(t: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and R² of the least-squares line."""
    dt, dy = t - t.mean(), y - y.mean()
    slope = float(dt @ dy / (dt @ dt))
    total = float(dy @ dy)
    return slope, 1.0 if total == 0 else 1 - float(((dy - slope * dt) ** 2).sum()) / total


def first_below(values: np.ndarray, accuracies: Sequence[float] = ACCURACIES) -> dict[float, int | None]:
    """For each accuracy, the first t (from 1) after which all values stay below it; None if there is none."""
    first: dict[float, int | None] = {}
    for eps in accuracies:
        above = np.flatnonzero(~(values <= eps))
        last = int(above[-1]) + 1 if above.size else 0
        first[eps] = last + 1 if last < len(values) else None
    return first


def first_below_relative(values: np.ndarray, size: float) -> dict[float, int | None]:
    """`first_below` for the accuracies of `RELATIVE` in units of `size`; empty if `size` is 0 or not finite."""
    return first_below(values / size, RELATIVE) if 0 < size < np.inf else {}


def follow(
    values_at: Callable[[np.ndarray], np.ndarray], longest: int = LONGEST_BOUND, least: float = ACCURACIES[-1]
) -> np.ndarray:
    """Evaluate a bound at t = 1, 2, …, `longest`; stops early if the bound is below `least` or no longer falls."""
    pieces: list[np.ndarray] = []
    start, size = 1, 1024
    while start < longest:
        try:
            pieces.append(values_at(np.arange(start, start + size)))
        except AssumptionError:  # the theorem does not apply at this t
            pieces.append(np.full(size, np.nan))
        start, size = start + size, min(2 * size, longest - start - size)
        if pieces[-1][-1] <= least:
            break
        if len(pieces) > 1 and abs(pieces[-1][-1] - pieces[-2][-1]) <= 1e-12 * pieces[-1][-1]:
            break
    return np.concatenate(pieces)


def last_rate(values: np.ndarray) -> float | None:
    """The r of a curve a·t^p·r^t through three late points above the smallest accuracy; None if there are too few."""
    enough = np.flatnonzero(values > ACCURACIES[-1])
    last = min(int(enough[-1]) + 2, len(values)) if enough.size else len(values)
    if last < SHORTEST_LINE:
        return None
    ts = np.array([last - max(2, last // 8), last - max(1, last // 16), last])
    samples = values[ts - 1]
    if not (np.isfinite(samples).all() and (samples > 0).all()):
        return None
    steps, powers = np.diff(ts).astype(float), np.diff(np.log(ts))
    return float(np.exp(np.linalg.solve(np.stack([steps, powers], axis=1), np.diff(np.log(samples)))[0]))

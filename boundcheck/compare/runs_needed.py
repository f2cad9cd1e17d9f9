"""Estimate how many runs are needed to decide whether a mean is below a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

from boundcheck.compare.confidence import BETS, MOST_RUNS, runs_to_decide, vector_radius
from boundcheck.report.stochastic_curve import Measured

ERRORS = 2  # a difference of fewer standard errors than this is not significant


@dataclass(frozen=True)
class Needed:
    """A number of runs; `at_least` is True if the bound is so near to the estimate that more may be needed."""

    runs: int
    at_least: bool


def runs_needed(
    quantity: Measured, value: float, variance: float, bound: float, largest: float, delta: float, runs: int,
    mean_square: float = math.inf,
) -> Needed | None:  # fmt: skip
    """The number of runs that decide, if further runs resemble the given ones; None if more than 10⁹ are needed.

    Parameters
    ----------
    quantity : Measured
        The measured quantity, a mean of numbers (for the bias, the norm of a mean of vectors).
    value : float
        The estimate of the quantity.
    variance : float
        The variance of the numbers; for the bias, the mean square norm of the vectors.
    bound : float
        The bound.
    largest : float
        An upper bound on the numbers; for the bias, on the distances of the vectors from their mean.
    delta : float
        The probability that an end of the interval is wrong.
    runs : int
        The number of runs so far.
    mean_square : float
        An upper bound on the mean of the squares of the numbers; for the bias, on the mean of the fourth powers of the
        norms; infinite by default, if unknown.

    Returns
    -------
    Needed or None
        The number of runs.
    """
    error = ERRORS * math.sqrt(variance / runs)
    if quantity is Measured.BIAS and value < error:
        value, error = 0.0, 0.0  # the bias may be 0, though the norm of an average of runs is not
    gap = abs(bound - value)
    near, gap = gap < error, max(gap, error)
    if quantity is Measured.BIAS:
        count = _of_bias(variance, largest, gap, bound, delta, mean_square)
    else:
        if quantity is Measured.VARIANCE_OF_MEAN:
            gap /= 2  # the other half is for the square of the bias
        mean = bound - gap if value <= bound else bound + gap
        count = runs_to_decide(mean, variance, bound, delta, largest, mean_square)
    return None if count is None else Needed(count, near)


def _of_bias(
    mean_square: float, largest: float, gap: float, bound: float, delta: float, fourth: float
) -> int | None:  # fmt: skip
    """The runs after which the upper end is below the bound: by the radius, or by the root of the mean square."""
    depth = math.log(len(BETS) / delta)

    def is_enough(n: int) -> bool:
        by_range = (math.sqrt(mean_square) + largest / 2 * math.sqrt(depth / n)) ** 2  # a bound on the mean square
        above = min(by_range, mean_square + math.sqrt(2 * fourth * depth / n))
        radius = min(vector_radius(above, largest, n, delta), math.sqrt(above / n / delta))
        return math.sqrt(mean_square / n) + radius < gap or math.sqrt(above) < bound

    if not is_enough(MOST_RUNS):
        return None
    few, many = 0, MOST_RUNS
    while many - few > max(1, few // 100):
        middle = (few + many) // 2 if few == 0 else max(few + 1, math.isqrt(few * many))
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    return many

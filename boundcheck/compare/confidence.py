"""Confidence intervals for means of bounded numbers and vectors, without assumptions on their distribution.

Numbers (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024): if X_1, …, X_n ≥ 0
are independent with mean at most m, then W = Π(1 + λ(X_i/m − 1)) has mean at most 1 for every λ in [0, 1]. The same
holds for an average of such W over several fixed λ. By Markov, W ≥ 1/δ has probability at most δ. So m is rejected if
W ≥ 1/δ, and the largest rejected m is the lower end. This needs no upper bound on X. If always X ≤ B, the upper end
follows in the same way from B − X.

If the mean of the squares is at most S, the mean of n independent numbers X ≥ 0 falls below its expectation by more
than ε with probability at most exp(−nε²/2S), because E e^(−sX) ≤ 1 − sEX + s²S/2 for s ≥ 0. This gives another upper
end, for which rare large numbers matter less.

Vectors (Pinelis, "Optimum bounds for the distributions of martingales in Banach spaces", 1994, Theorem 3.4): for
independent vectors with mean 0, norm at most b and mean square norm at most v, the norm of their average is larger
than ε with probability at most 2exp(−nε²/(2(v + bε/3))).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

BETS = 0.99 * 2.0 ** -np.arange(14)  # the values of λ; for any spread of the numbers one of them is near the best
SLACK = 1.25  # more runs by this factor, because λ is only within a factor √2 of the best
MOST_RUNS = 10**9  # no plan needs more
HALVINGS = 60  # bisection steps for each end
NARROW = 1e-10  # relative width at which the bisection stops
BOUNDED = "betting on bounded numbers"
APPROXIMATE = "Student's t, which is approximate, as nothing bounds the numbers"


@dataclass(frozen=True)
class ConfidenceInterval:
    """An interval for a mean; each end is wrong with at most the probability for which it was computed.

    `proved` says whether the upper end is proved. The lower end for the mean of nonnegative numbers is always proved.
    """

    lower: float
    upper: float
    proved: bool


def mean_interval(
    numbers: np.ndarray, delta: float, largest: float | None, mean_square: float | None = None
) -> ConfidenceInterval:
    """An interval for the mean of independent nonnegative numbers.

    Parameters
    ----------
    numbers : ndarray of shape (runs,)
        The numbers, at least 0.
    delta : float
        The probability that an end is wrong.
    largest : float or None
        An upper bound on all possible numbers; None if unknown.
    mean_square : float, optional
        An upper bound on the mean of the squares of the numbers, if known.

    Returns
    -------
    ConfidenceInterval
        The interval. It is proved if `largest` is known and no number is above it; otherwise the upper end is that of
        Student's t.
    """
    lower = lower_end(numbers, delta)
    if largest is not None and math.isfinite(largest) and numbers.max() <= largest:
        if mean_square is None or not math.isfinite(mean_square):
            return ConfidenceInterval(lower, upper_end(numbers, delta, largest), proved=True)
        ends = upper_end(numbers, delta / 2, largest), moment_end(numbers, delta / 2, mean_square)
        return ConfidenceInterval(lower, min(ends), proved=True)
    return ConfidenceInterval(lower, student_end(numbers, delta), proved=False)


def lower_end(numbers: np.ndarray, delta: float) -> float:
    """The lower end for the mean of nonnegative numbers; wrong with probability at most δ."""
    mean = float(numbers.mean())
    if mean == 0 or not math.isfinite(mean):
        return 0.0
    return _last_rejected(lambda m: numbers / m - 1, 0.0, mean, delta)


def upper_end(numbers: np.ndarray, delta: float, largest: float) -> float:
    """The upper end for the mean of numbers between 0 and `largest`; wrong with probability at most δ."""
    mean = float(numbers.mean())
    if not mean < largest:
        return largest
    return _last_rejected(lambda m: (m - numbers) / (largest - m), largest, mean, delta)


def moment_end(numbers: np.ndarray, delta: float, mean_square: float) -> float:
    """The upper end for the mean of nonnegative numbers, from a bound on the mean of their squares."""
    return float(numbers.mean()) + math.sqrt(2 * mean_square * math.log(1 / delta) / len(numbers))


def _last_rejected(excess: Callable[[float], np.ndarray], far: float, near: float, delta: float) -> float:
    """The rejected m nearest to the mean; `far` if no m is rejected. `excess(m)` is X/m − 1 for each number."""
    enough = math.log(len(BETS) / delta)

    def rejected(m: float) -> bool:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            wealth = np.log1p(BETS[:, None] * excess(m)).sum(axis=1)
        return bool(np.logaddexp.reduce(wealth) >= enough)

    for _ in range(HALVINGS):
        middle = (far + near) / 2
        if abs(far - near) <= NARROW * abs(near):
            break
        far, near = (middle, near) if rejected(middle) else (far, middle)
    return far


def student_end(numbers: np.ndarray, delta: float) -> float:
    """An approximate upper end; it is not proved, because the distribution of the numbers is unknown."""
    if len(numbers) < 2:
        return math.inf
    spread = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return float(numbers.mean()) + float(stdtrit(len(numbers) - 1, 1 - delta)) * spread


def vector_radius(variance: float, largest: float, runs: int, delta: float) -> float:
    """A bound on the distance of the average of independent vectors from their mean; wrong with probability at most δ.

    Parameters
    ----------
    variance : float
        An upper bound on the mean square distance of a vector from the mean.
    largest : float
        An upper bound on the distance of a vector from the mean.
    runs : int
        The number of vectors.
    delta : float
        The probability that the result is too small.

    Returns
    -------
    float
        The bound.
    """
    depth = math.log(2 / delta) / runs
    first = largest * depth / 3
    return first + math.sqrt(first * first + 2 * variance * depth)


def runs_to_decide(
    mean: float, variance: float, bound: float, delta: float, largest: float | None, mean_square: float = math.inf
) -> int | None:
    """Estimate how many runs put the end of the interval between the mean and a bound; None if more than 10⁹ or never.

    Parameters
    ----------
    mean : float
        The mean of the numbers.
    variance : float
        The variance of the numbers.
    bound : float
        The bound.
    delta : float
        The probability that the end is wrong.
    largest : float or None
        An upper bound on all possible numbers; None if unknown.
    mean_square : float
        An upper bound on the mean of the squares of the numbers; infinite by default, if unknown.

    Returns
    -------
    int or None
        The number of runs.
    """
    gap = abs(bound - mean)
    below = mean < bound
    if gap == 0 or not math.isfinite(gap) or (below and largest is None):
        return None
    depth = math.log(len(BETS) / delta)
    by_range = (largest or 0.0) / gap if below else 0.0
    runs = depth * (SLACK * 2 * variance / gap**2 + by_range)
    if below:
        runs = min(runs, 2 * mean_square * math.log(2 / delta) / gap**2)
    return math.ceil(runs) if runs <= MOST_RUNS else None

"""Mean square error, bias and variances of random hypergradients, with confidence intervals.

Each run has two hypergradients g, g' with the same w_t and independent draws after that. So ½‖g − g'‖² has the mean
E V[g | w_t], and ⟨g − g̃, g' − g̃⟩ has the mean E‖E[g | w_t] − g̃‖² = V[E[g | w_t]] + ‖E g − g̃‖², for any fixed g̃.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from boundcheck.compare import confidence
from boundcheck.compare.confidence import ConfidenceInterval, lower_end, mean_interval, upper_end, vector_radius
from boundcheck.report.stochastic_curve import MeanEstimate, Measured

SUM_ROUNDING = 1e-9  # relative rounding of a sum of many products


@dataclass(frozen=True)
class Reference:
    """The reference with which the runs are compared, and bounds on its error.

    Attributes
    ----------
    value : ndarray of shape (n,)
        The reference hypergradient g̃.
    w : ndarray of shape (d,)
        The computed solution w̃ of the lower level.
    off : float
        An upper bound on ‖g̃ − ∇f‖.
    w_off : float
        An upper bound on ‖w̃ − w*‖.
    proved : bool
        Whether both are proved.
    """

    value: np.ndarray
    w: np.ndarray
    off: float
    w_off: float
    proved: bool


@dataclass(frozen=True)
class FourthPowers:
    """Upper bounds on the means of ‖g − ∇f‖⁴, of ¼‖g − g'‖⁴ and of ‖w_t − w*‖⁴ at one point of the grid."""

    error: float
    given: float
    distance: float


@dataclass(frozen=True)
class Range:
    """Proved bounds that hold for every draw; None if a bound is not proved.

    Attributes
    ----------
    error : float or None
        An upper bound on ‖g − ∇f‖.
    distance : float or None
        An upper bound on ‖w_t − w*‖.
    same : bool
        Whether all draws give the same result up to rounding; False by default.
    squares : FourthPowers or None
        Bounds on fourth powers, which make upper ends smaller; None by default.
    """

    error: float | None
    distance: float | None
    same: bool = False
    squares: FourthPowers | None = None


@dataclass(frozen=True)
class Runs:
    """The results of all runs at one point of the grid.

    Attributes
    ----------
    value : ndarray of shape (runs, n)
        The hypergradient of each run.
    again : ndarray of shape (runs, n)
        A second hypergradient of each run, from the same w_t.
    w : ndarray of shape (runs, d)
        The last iterates.
    """

    value: np.ndarray
    again: np.ndarray
    w: np.ndarray


@dataclass(frozen=True)
class PointEstimate:
    """The estimate of one quantity at one point of the grid.

    The estimate is a mean of numbers. `variance` is their variance; for the bias, the mean square norm of the vectors.
    `mean_square` bounds the mean of their squares; for the bias, the mean of the fourth powers of the norms.
    """

    value: float
    interval: ConfidenceInterval
    variance: float
    mean_square: float = math.inf


def measure(runs: Runs, reference: Reference, reach: Range, delta: float) -> dict[Measured, PointEstimate]:
    """Estimate every quantity at one point of the grid; each end of an interval is wrong with probability at most δ."""
    largest = (
        None if reach.error is None or not reference.proved else (reach.error + reference.off) * (1 + SUM_ROUNDING)
    )
    g, again = runs.value - reference.value, runs.again - reference.value
    if reach.same:
        return _without_noise(np.concatenate([g, again]), runs.w - reference.w, reference)
    each = np.stack([_squares(g), _squares(again)])
    if largest is not None and not each.max() <= largest**2:
        largest = None  # the runs refute this bound
    squares = each.mean(axis=0)
    square_range = None if largest is None else largest**2
    known = reach.squares or FourthPowers(math.inf, math.inf, math.inf)
    second_moment = mean_interval(squares, delta, square_range, _fourth(known.error, reference.off))
    mse = _moved(second_moment, reference)
    bias = replace(_bias(g, again, second_moment, mse, reference, largest, delta), mean_square=known.error)
    given = _squares(g - again) / 2
    inner = mean_interval(given, delta, None if square_range is None else 2 * square_range, known.given)
    inner = replace(inner, upper=min(inner.upper, second_moment.upper))  # E V[g | w_t] ≤ E‖g − g̃‖²
    return {
        Measured.MSE: PointEstimate(float(squares.mean()), mse, float(squares.var()), known.error),
        Measured.BIAS: bias,
        Measured.VARIANCE_GIVEN_W: PointEstimate(float(given.mean()), _rounded(inner), float(given.var()), known.given),
        Measured.VARIANCE_OF_MEAN: _variance_of_mean(
            g, again, bias, reference, square_range, delta, second_moment.upper - inner.lower
        ),
        Measured.DISTANCE: _distance(runs.w, reference, reach, delta),
    }


def _without_noise(g: np.ndarray, away: np.ndarray, reference: Reference) -> dict[Measured, PointEstimate]:
    """Every quantity if all runs are equal up to rounding."""

    def size(vectors: np.ndarray, off: float, power: int) -> PointEstimate:
        norms = np.sqrt(_squares(vectors))
        ends = max(0.0, float(norms.min()) - off) ** power, (float(norms.max()) + off) ** power
        return PointEstimate(float(norms.mean()) ** power, _rounded(ConfidenceInterval(*ends, reference.proved)), 0.0)

    spread = float(_squares(g - g.mean(axis=0)).max())
    none = PointEstimate(spread, ConfidenceInterval(0.0, spread, reference.proved), 0.0)
    return {
        Measured.MSE: size(g, reference.off, 2),
        Measured.BIAS: size(g, reference.off, 1),
        Measured.VARIANCE_GIVEN_W: none,
        Measured.VARIANCE_OF_MEAN: none,
        Measured.DISTANCE: size(away, reference.w_off, 2),
    }


def collect(points: list[dict[Measured, PointEstimate]], quantity: Measured) -> MeanEstimate:
    """The estimates of one quantity over the whole grid."""
    values = [point[quantity] for point in points]
    proved = all(p.interval.proved for p in values)
    return MeanEstimate(
        quantity,
        np.array([p.value for p in values]),
        np.array([p.interval.lower for p in values]),
        np.array([p.interval.upper for p in values]),
        proved,
        confidence.BOUNDED if proved else confidence.APPROXIMATE,
    )


def _squares(vectors: np.ndarray) -> np.ndarray:
    squares: np.ndarray = np.einsum("ij,ij->i", vectors, vectors)
    return squares


def _distance(w: np.ndarray, reference: Reference, reach: Range, delta: float) -> PointEstimate:
    away = _squares(w - reference.w)
    largest = None if reach.distance is None or not reference.proved else (reach.distance + reference.w_off) ** 2
    if largest is not None:
        largest *= 1 + SUM_ROUNDING
    fourth = None if reach.squares is None else _fourth(reach.squares.distance, reference.w_off)
    interval = _shift(mean_interval(away, delta, largest, fourth), reference.w_off, reference.proved)
    return PointEstimate(float(away.mean()), interval, float(away.var()), math.inf if fourth is None else fourth)


def _fourth(moment: float, off: float) -> float:
    """The fourth moment of a distance from the reference, given the fourth moment of the distance from the truth."""
    return math.inf if not math.isfinite(moment) else (moment**0.25 + off) ** 4


def _moved(interval: ConfidenceInterval, reference: Reference) -> ConfidenceInterval:
    return _shift(interval, reference.off, reference.proved)


def _shift(interval: ConfidenceInterval, off: float, proved: bool) -> ConfidenceInterval:
    """The interval for a mean square distance from the truth; the truth is within `off` of the reference."""
    lower = max(0.0, math.sqrt(interval.lower) - off) ** 2 if math.isfinite(off) else 0.0
    upper = (math.sqrt(interval.upper) + off) ** 2
    return _rounded(ConfidenceInterval(lower, upper, interval.proved and proved))


def _rounded(interval: ConfidenceInterval) -> ConfidenceInterval:
    return ConfidenceInterval(interval.lower * (1 - SUM_ROUNDING), interval.upper * (1 + SUM_ROUNDING), interval.proved)


def _bias(
    g: np.ndarray, again: np.ndarray, second_moment: ConfidenceInterval, mse: ConfidenceInterval, reference: Reference,
    largest: float | None, delta: float,
) -> PointEstimate:  # fmt: skip
    """‖E g − ∇f‖, from the average of the runs; the upper end is at most the root of the upper end of E‖g − ∇f‖².

    The radius is the smaller one of Pinelis and Chebyshev, at the upper end of the mean square. Both grow with the mean
    square. So the radius is at least the smaller one at the true mean square, if this is in its interval; and which one
    is smaller there does not depend on the draws.
    """
    means = (g + again) / 2
    runs, centre = len(means), means.mean(axis=0)
    value, variance = float(np.linalg.norm(centre)), float(_squares(means - centre).mean())
    mean_square = float((_squares(g) + _squares(again)).mean()) / 2
    if largest is None:  # approximate: a normal distribution with the trace of the covariance
        radius = math.sqrt(variance / runs) * (1 + math.sqrt(2 * math.log(1 / delta)))
    else:
        chebyshev = math.sqrt(second_moment.upper / runs / delta)
        radius = min(vector_radius(second_moment.upper, 2 * largest, runs, delta), chebyshev)
    off = reference.off if math.isfinite(reference.off) else math.inf
    upper = value + radius + off
    if largest is not None and mse.proved:
        upper = min(upper, math.sqrt(mse.upper))
    interval = ConfidenceInterval(max(0.0, value - radius - off), upper, largest is not None)
    return PointEstimate(value, _rounded(interval), mean_square)


def _variance_of_mean(
    g: np.ndarray, again: np.ndarray, bias: PointEstimate, reference: Reference, square_range: float | None,
    delta: float, most: float,
) -> PointEstimate:  # fmt: skip
    """V[E[g | w_t]]; `most` is an upper end for E⟨g − g̃, g' − g̃⟩ = E‖g − g̃‖² − E V[g | w_t]."""
    products = np.einsum("ij,ij->i", g, again)
    mean, spread = float(products.mean()), float(products.var())
    value = max(0.0, mean - bias.value**2)
    near = max(0.0, bias.interval.lower - reference.off) ** 2  # at most ‖E g − g̃‖²
    far = (bias.interval.upper + reference.off) ** 2
    if square_range is not None:
        shifted = products + square_range
        lower = lower_end(shifted, delta) - square_range
        upper = min(upper_end(shifted, delta, 2 * square_range) - square_range, most)
    else:
        wide = confidence.student_end(products - mean, delta)
        lower, upper = mean - wide, mean + wide
    interval = ConfidenceInterval(max(0.0, lower - far), max(0.0, upper - near), square_range is not None)
    return PointEstimate(value, _rounded(interval), spread)

"""The contraction of a gradient step towards w* over a ball, from the mean of ∇²₁ℓ along the segment to w*.

Φ(w) − w* = (I − αH̄)(w − w*), where H̄ is the mean of ∇²₁ℓ between w* and w. The bounds on smaller balls apply to the
part of the segment near w*. H̄ is between the means of the matrices that enclose ∇²₁ℓ on the balls along the segment,
and its smallest eigenvalue is at least the mean of theirs. docs/proofs.md, shrinking balls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from boundcheck.numerics.program.enclosure.curvature_form import Curvature, largest_of, smallest_of, weighted_sum
from boundcheck.numerics.program.enclosure.intervals import UP

Table = tuple[tuple[float, float], ...]


@dataclass(frozen=True, eq=False)
class OnBall:
    """Bounds on ∇²₁ℓ over the ball of a radius around w*, as a part of D²ℓ."""

    radius: float
    hessian: Curvature


@dataclass(frozen=True)
class NearbyStep:
    """The step of Φ = w − a∇₁ℓ, where |a − α| ≤ off."""

    alpha: float
    off: float

    @property
    def longest(self) -> float:
        """An upper bound on a."""
        return (self.alpha + self.off) * UP

    def slope(self, smallest: float, largest: float) -> float:
        """Return an upper bound on ‖I − aH‖ for a matrix H with these extreme eigenvalues."""
        size = max(abs(smallest), abs(largest))
        slope = max(1 - self.alpha * smallest, self.alpha * largest - 1)
        return slope + 4e-16 * (1 + self.longest * size) + self.off * size * UP


def towards(balls: Sequence[OnBall], step: NearbyStep) -> Table:
    """Return an upper bound on sup ‖Φ(w) − w*‖/‖w − w*‖ over each ball.

    Parameters
    ----------
    balls : sequence of OnBall
        Balls with decreasing radii.
    step : NearbyStep
        The step of Φ.

    Returns
    -------
    tuple of (float, float)
        Pairs of a radius and a factor. The factors do not increase.
    """
    table: list[tuple[float, float]] = []
    widest = math.inf  # the largest eigenvalue of the mean on the widest ball, and so on those inside
    for radius, mean in _means(balls):
        smallest = smallest_of([mean])
        if step.alpha * widest - 1 > 1 - step.alpha * smallest:
            widest = min(widest, largest_of([mean]))
        factor = step.slope(smallest, widest)
        if math.isfinite(factor):
            table.append((radius, min(factor, table[-1][1]) if table else factor))
    return tuple(table)


def _means(balls: Sequence[OnBall]) -> list[tuple[float, Curvature]]:
    """For each radius the mean of ∇²₁ℓ between w* and any point of its ball.

    The fraction τ of the segment next to w* is in every ball whose radius is at least τ times that of the first.
    """
    means: list[tuple[float, Curvature]] = []
    whole: Curvature | None = None  # times the radius
    for number in reversed(range(len(balls))):
        ball = balls[number]
        gap = ball.radius - (balls[number + 1].radius if whole is not None else 0.0)
        parts = [ball.hessian] if whole is None else [ball.hessian, whole]
        whole = weighted_sum(parts, [gap, 1.0][: len(parts)])
        means.append((ball.radius, weighted_sum([whole], [1 / ball.radius])))
    return means[::-1]


def shares_of(radii: Sequence[float]) -> list[float]:
    """Return the fraction of a radius of the first ball that is in each ball but not in the next one."""
    return [(high - low) / radii[0] for high, low in pairwise((*radii, 0.0))]

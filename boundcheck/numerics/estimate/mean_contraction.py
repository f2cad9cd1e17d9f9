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

from boundcheck.numerics.program.enclosure.curvature_form import Curvature, ends_of, weighted_sum
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
    for number, ball in enumerate(balls):
        factor = step.slope(*ends_of([_mean(balls[number:])]))
        if math.isfinite(factor):
            table.append((ball.radius, min(factor, table[-1][1]) if table else factor))
    return tuple(table)


def _mean(balls: Sequence[OnBall]) -> Curvature:
    """The mean of ∇²₁ℓ between w* and any point of the first of these balls.

    The fraction τ of the segment next to w* is in every ball whose radius is at least τ times that of the first.
    """
    return weighted_sum([ball.hessian for ball in balls], shares_of([ball.radius for ball in balls]))


def shares_of(radii: Sequence[float]) -> list[float]:
    """Return the fraction of a radius of the first ball that is in each ball but not in the next one."""
    return [(high - low) / radii[0] for high, low in pairwise((*radii, 0.0))]

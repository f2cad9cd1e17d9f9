"""How much closer to w* a gradient step brings every point of a ball, by the mean of ∇²₁ℓ on the way there.

Φ(w) − w* = (I − αH̄)(w − w*), where H̄ is the mean of ∇²₁ℓ between w* and w. The part of the way that is near w* counts
with what is known there. H̄ is between the means of the matrices that enclose ∇²₁ℓ on the balls on the way, and its
smallest eigenvalue is at least the mean of theirs. docs/proofs.md, shrinking balls.
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
    """Where ∇²₁ℓ is on the ball of a radius around w*, as a part of D²ℓ."""

    radius: float
    hessian: Curvature


@dataclass(frozen=True)
class NearbyStep:
    """Φ = w − a∇₁ℓ with |a − α| ≤ off."""

    alpha: float
    off: float

    @property
    def longest(self) -> float:
        """At least a."""
        return (self.alpha + self.off) * UP

    def slope(self, smallest: float, largest: float) -> float:
        """At least ‖I − aH‖, if the eigenvalues of H are between these."""
        size = max(abs(smallest), abs(largest))
        slope = max(1 - self.alpha * smallest, self.alpha * largest - 1)
        return slope + 4e-16 * (1 + self.longest * size) + self.off * size * UP


def towards(balls: Sequence[OnBall], step: NearbyStep) -> Table:
    """For the radius of each ball, at least sup ‖Φ(w) − w*‖/‖w − w*‖ over the ball.

    Parameters
    ----------
    balls : sequence of OnBall
        With falling radii.
    step : NearbyStep
        The step of Φ.

    Returns
    -------
    tuple of (float, float)
        Pairs of a radius and a factor. Factors do not grow.
    """
    table: list[tuple[float, float]] = []
    for number, ball in enumerate(balls):
        factor = step.slope(*ends_of([_mean(balls[number:])]))
        if math.isfinite(factor):
            table.append((ball.radius, min(factor, table[-1][1]) if table else factor))
    return tuple(table)


def _mean(balls: Sequence[OnBall]) -> Curvature:
    """The mean of ∇²₁ℓ between w* and any point of the first of these balls.

    A share τ of the way from w* is in every ball that is at least τ times as wide as the first.
    """
    return weighted_sum([ball.hessian for ball in balls], shares_of([ball.radius for ball in balls]))


def shares_of(radii: Sequence[float]) -> list[float]:
    """How much of the way from the centre to the edge of the first ball is in each ball and not in the next."""
    return [(high - low) / radii[0] for high, low in pairwise((*radii, 0.0))]

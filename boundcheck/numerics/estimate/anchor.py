"""A computed point with a bound on its distance from w*. Bounds around the point give bounds around w*."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.program.enclosure.intervals import UP, norm


@dataclass(frozen=True, eq=False)
class Anchor:
    """A computed w with an upper bound on ‖w − w*‖."""

    w: Tensor
    distance: float

    def is_in(self, region: Region) -> bool:
        """Return whether w and w* are both in a region."""
        return (norm(self.w.cpu().double() - region.point.cpu().double()) + self.distance) * UP <= region.radius

    def mean_distance(self, region: Region) -> float:
        """Return a bound on the mean distance from w along a segment from w* to any point of the region."""
        reach = norm(self.w.cpu().double() - region.point.cpu().double()) + region.radius
        return (self.distance + reach) / 2 * UP

"""A point known to be near w*: bounds that hold around w* are moved there from it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.program.enclosure.intervals import UP, norm


@dataclass(frozen=True, eq=False)
class Anchor:
    """A computed w, and at least how far w* is from it."""

    w: Tensor
    distance: float

    def is_in(self, region: Region) -> bool:
        """Are w and w* in a region?"""
        return (norm(self.w.cpu().double() - region.point.cpu().double()) + self.distance) * UP <= region.radius

    def mean_distance(self, region: Region) -> float:
        """At least the mean distance from w of the points between w* and a point of the region."""
        reach = norm(self.w.cpu().double() - region.point.cpu().double()) + region.radius
        return (self.distance + reach) / 2 * UP

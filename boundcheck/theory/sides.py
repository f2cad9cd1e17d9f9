"""Compute the side of a bound from the sides of its constants and the direction in which it moves with each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from boundcheck.constants import Constant
from boundcheck.side import Side


@dataclass(frozen=True)
class CombinedSide:
    """The side of a value computed from constants; `weakest` are the constants that decide it."""

    side: Side
    delta: float
    weakest: tuple[str, ...]


def combine(used: Iterable[tuple[Constant, int]]) -> CombinedSide:
    """Combine pairs of a constant and a direction: the weakest constant decides, and failure probabilities add up."""
    used = tuple(used)
    if unsafe := tuple(constant.name for constant, direction in used if not constant.side.is_safe_for(direction)):
        return CombinedSide(Side.LOWER, 0.0, unsafe)
    if probable := tuple(constant for constant, _ in used if constant.side is Side.HIGH_PROBABILITY):
        delta = min(1.0, sum(constant.provenance.delta or 0.0 for constant in probable))
        return CombinedSide(Side.HIGH_PROBABILITY, delta, tuple(constant.name for constant in probable))
    bounded = tuple(constant.name for constant, _ in used if constant.side is not Side.EXACT)
    return CombinedSide(Side.UPPER if bounded else Side.EXACT, 0.0, bounded)

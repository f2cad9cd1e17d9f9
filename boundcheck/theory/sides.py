"""From the sides of the constants to the side of a bound, through the direction in which it moves with each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from boundcheck.constants import Constant, Side


@dataclass(frozen=True)
class CombinedSide:
    """The side of a value computed from constants; `weakest` are the constants that decide it."""

    side: Side
    delta: float
    weakest: tuple[str, ...]


def _is_safe(constant: Constant, direction: int) -> bool:
    if constant.side is Side.EXACT:
        return True
    if constant.side is Side.HIGH_PROBABILITY:
        return direction != 0
    return constant.side is {+1: Side.UPPER, -1: Side.LOWER}.get(direction)


def combine(used: Iterable[tuple[Constant, int]]) -> CombinedSide:
    """A bound is as good as its weakest constant; failure probabilities add up."""
    used = tuple(used)
    if unsafe := tuple(constant.name for constant, direction in used if not _is_safe(constant, direction)):
        return CombinedSide(Side.LOWER, 0.0, unsafe)
    if probable := tuple(constant for constant, _ in used if constant.side is Side.HIGH_PROBABILITY):
        delta = min(1.0, sum(constant.provenance.delta or 0.0 for constant in probable))
        return CombinedSide(Side.HIGH_PROBABILITY, delta, tuple(constant.name for constant in probable))
    bounded = tuple(constant.name for constant, _ in used if constant.side is not Side.EXACT)
    return CombinedSide(Side.UPPER if bounded else Side.EXACT, 0.0, bounded)

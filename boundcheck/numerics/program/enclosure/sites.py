"""Sites in the user's code that the values of a program come from, and the rows of a report about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from boundcheck.explanation import Contribution
from boundcheck.numerics.program.enclosure.linear import Linear
from boundcheck.numerics.program.enclosure.site_notes import Names, Reading, hint, note
from boundcheck.numerics.program.enclosure.value import Value

NOTHING = 1e-10  # smaller numbers count as rounding of 0


@dataclass(frozen=True, eq=False)
class Site:
    """All runs of one operation on one line. `places` are their indices among the values of a program."""

    operation: str
    line: str
    places: tuple[int, ...]

    def row(self, value: float, at_centre: float, reading: Reading, *, least: bool = False) -> Contribution:
        """Return the contribution of the site to a bound, in numbers and words. `least` marks a lower bound."""
        value, at_centre = _number(value, least), _number(at_centre, least)
        at_centre = 0.0 if abs(at_centre) < NOTHING * abs(value) else at_centre
        advice = hint(reading, value, at_centre, least=least)
        return Contribution(self.operation, self.line, value, at_centre, len(self.places), note(reading), advice)


def _number(x: float, least: bool) -> float:
    """Replace NaN by the safe infinity, and rounding of 0 by 0."""
    if math.isnan(x):
        return -math.inf if least else math.inf
    return 0.0 if abs(x) < NOTHING else x


def sorted_rows(rows: Iterable[Contribution]) -> list[Contribution]:
    """Return the rows sorted by size, the largest first."""
    return sorted(rows, key=lambda row: -abs(row.value))


def sites_of(values: Sequence[Value], names: Names, places: Iterable[int]) -> list[Site]:
    """Group places by operation, line and rule."""
    groups: dict[tuple[str, str, type], list[int]] = {}
    for place in places:  # `dot` of a tensor with itself is a square, with another rule than `dot` of two tensors
        groups.setdefault((*names[id(values[place])], type(values[place].rule)), []).append(place)
    return [Site(operation, line, tuple(group)) for (operation, line, _), group in groups.items()]


def is_bent(value: Value) -> bool:
    """Return True if the value is the result of a nonlinear operation."""
    return value.rule is not None and not isinstance(value.rule, Linear)

"""Maps of a sweep: tightness, verdicts, rates and steps over two axes, or over one axis and the methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.report.verdict import Verdict
from boundcheck.sweeps.groups import Group, groups, names
from boundcheck.sweeps.row import FAILED, NO_GUARANTEE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from boundcheck.sweeps.result import Sweep
    from boundcheck.views.figures.value_map import Panel, Tile

MOST = 24  # the most values of an axis on a map; with more values, some are left out
DECADES = 8.0  # the decades of bound/error from white to dark; half as many for steps
WORDS = {  # a short word and a colour for each verdict
    "proved": ("proved", "#56B4E9"), "probable": ("prob.", "#A6D8F0"), "estimated": ("est.", "#DDEFF8"),
    NO_GUARANTEE: ("none", ""), Verdict.HOLDS.value: ("holds", "#56B4E9"),
    Verdict.HOLDS_PROBABLY.value: ("prob.", "#A6D8F0"), Verdict.CONSISTENT.value: ("cons.", "#DDEFF8"),
    Verdict.NOT_APPLICABLE.value: ("none", ""), Verdict.INCONCLUSIVE.value: ("?", "#F0E442"),
    Verdict.VIOLATED_PROBABLY.value: ("viol.?", "#E69F00"), Verdict.VIOLATED.value: ("viol.", "#D55E00"),
    FAILED: ("failed", ""),
}  # fmt: skip


@dataclass(frozen=True)
class MappedQuantity:
    """A quantity for a map: its field, its text for checks and for plans, its shade by value, and its key."""

    field: str
    of_checks: str
    of_plans: str
    shade: Callable[[float], float]
    keys: Sequence[tuple[float, str]] = ()


def _decades(value: float) -> float:
    return math.log10(max(value, 1.0)) / DECADES


def _steps(value: float) -> float:
    return 2 * _decades(value)


RATIOS = ((1.0, "1: equal to the error"), (1e2, "10²"), (1e4, "10⁴"), (1e8, "10⁸ and more"))
QUANTITIES = {
    "tightness": MappedQuantity(
        "ratio", "the best bound over the error", "guaranteed cost over the cost that a run needed", _decades, RATIOS
    ),
    "a-priori": MappedQuantity("a_priori", "the best a priori bound over the error", "", _decades, RATIOS),
    "rates": MappedQuantity(
        "rate", "the factor of the error at each step", "", lambda rate: max(0.0, min(1.0, rate)) ** 3,
        ((0.5, "0.5"), (0.9, "0.9"), (1.0, "1: no progress")),
    ),
    "steps": MappedQuantity(
        "needed", "the t for an error of 1 % of ‖∇f‖", "the t that a run needed", _steps,
        ((10.0, "10"), (100.0, "100"), (1e4, "10⁴ and more")),
    ),
}  # fmt: skip
VERDICTS = "verdicts"


def kinds(action: str) -> list[str]:
    """Return the names of the maps after this action."""
    return [VERDICTS, *(name for name, quantity in QUANTITIES.items() if action == "check" or quantity.of_plans)]


def drawn(sweep: Sweep, what: str = "tightness", x: str | None = None, y: str | None = None) -> Figure:
    """Return the figure of a map; by default over the first two axes with several values."""
    from boundcheck.views.figures.value_map import Panel, Tile, ValueMap, value_map

    if what not in kinds(sweep.action):
        raise UnknownNameError.among("map", what, kinds(sweep.action))
    x, y = _axes(sweep, x, y)
    axes, methods = [axis for axis in (y, x) if axis], sweep.methods
    if y:
        panels = [panel(sweep, method, what, x, y) for method in methods]
        rows = names(_some(sweep.grid.values(y)))
    else:
        several = [panel(sweep, method, what, x, None).tiles[0] for method in reversed(methods)]
        panels, rows = [Panel("", several)], [method or "–" for method in reversed(methods)]
    if what == VERDICTS:
        verdicts = {group.verdict for group in groups(sweep.rows, axes).values()}
        keys = [
            Tile(f"{word}: {v}" if word != v else v, None, tint) for v, (word, tint) in WORDS.items() if v in verdicts
        ]
    else:
        keys = [*shades(what), Tile("–: nothing to show")]
    columns = names(_some(sweep.grid.values(x))) if x else [""]
    return value_map(ValueMap(_headline(sweep, what, axes), x or "", y or "", columns, rows, panels, keys))


def panel(sweep: Sweep, method: str, what: str, x: str | None, y: str | None) -> Panel:
    """Return the tiles of one method, with its name as the title; one row without `y`, one tile without both axes."""
    from boundcheck.views.figures.value_map import Panel

    by_place = groups(sweep.rows, [axis for axis in (y, x) if axis])
    across: list[tuple[Any, ...]] = [(value,) for value in _some(sweep.grid.values(x))] if x else [()]
    up: list[tuple[Any, ...]] = [(value,) for value in _some(sweep.grid.values(y))] if y else [()]

    def group(place: tuple[Any, ...]) -> Group | None:
        """Return the rows of a place. They have no method if no problem could be made and no methods were named."""
        return by_place.get((place, method)) or by_place.get((place, ""))

    return Panel(method, [[_tile(group((*row, *column)), what) for column in across] for row in up])


def shades(what: str) -> list[Tile]:
    """Return the key of a map, without the entry for empty tiles."""
    from boundcheck.views.figures.value_map import Tile

    return [Tile(text, QUANTITIES[what].shade(value)) for value, text in QUANTITIES[what].keys]


def _headline(sweep: Sweep, what: str, axes: Sequence[str]) -> str:
    if what == VERDICTS:
        text = "the worst verdict" if sweep.action == "check" else "how the guaranteed steps are known"
    else:
        text = QUANTITIES[what].of_checks if sweep.action == "check" else QUANTITIES[what].of_plans
    rest = [axis for axis in sweep.grid.wide if axis not in axes]
    over = f" ({'of all' if what == VERDICTS else 'median over'} {', '.join(rest)})" if rest else ""
    long = {axis: len(sweep.grid.values(axis)) for axis in axes if len(sweep.grid.values(axis)) > MOST}
    some = "".join(f"; {MOST} of {count} values of {axis} are shown" for axis, count in long.items())
    return f"{sweep.problem}: {text}{over}{some}"


def _axes(sweep: Sweep, x: str | None, y: str | None) -> tuple[str | None, str | None]:
    known = [*sweep.grid.axes, "sample"]
    for axis in (x, y):
        if axis is not None and axis not in known:
            raise UnknownNameError.among("axis", axis, known)
    if x is not None and x == y:
        raise InputError(f"x and y are both {x}; give two axes, or only x")
    if x is not None or y is not None:
        return (x, y) if x is not None else (y, None)
    wide = [axis for axis in sweep.grid.wide if axis not in ("seed", "sample")] or sweep.grid.wide[:1]
    if len(wide) < 2:
        return (wide[0] if wide else None), None
    return wide[1], wide[0]


def _some(values: Sequence[Any]) -> list[Any]:
    """Return all values, or MOST of them with the first and the last."""
    if len(values) <= MOST:
        return list(values)
    return [values[round(i * (len(values) - 1) / (MOST - 1))] for i in range(MOST)]


def _tile(group: Group | None, what: str) -> Tile:
    from boundcheck.views.figures.value_map import Tile

    if group is None:
        return Tile("")
    if what == VERDICTS:
        word, colour = WORDS[group.verdict]
        return Tile(word, None, colour)
    quantity = QUANTITIES[what]
    value = group.median(quantity.field)
    return Tile("–") if value is None else Tile(_word(value), quantity.shade(value))


def _word(value: float) -> str:
    """Return a number in at most five characters; "1" only for exactly 1, because a rate of 1 means no progress."""
    if value >= 1e4 or 0 < value < 1e-2:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    word = f"{value:.3g}" if value >= 0.1 else f"{value:.2g}"
    return word if word != "1" else "<1" if value < 1 else ">1"

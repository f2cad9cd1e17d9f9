"""Groups of rows of a sweep: rows that differ only in repetitions (seeds, drawn λ) become one line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from boundcheck.report.verdict import Verdict
from boundcheck.sweeps.row import FAILED, NO_GUARANTEE, SweepRow

# from good to bad: the verdicts of checks, and how the steps of plans are known
ORDER = ["proved", "probable", "estimated", NO_GUARANTEE, *(verdict.value for verdict in Verdict), FAILED]
STEPS = ("needed", "guaranteed")


@dataclass(frozen=True)
class Group:
    """The rows of one method at one place of the grid.

    Numbers are medians over the rows that have a value; None if no row has one. Steps are the exception: a row without
    them needs more steps than were tried, or has no proof, so it counts as infinite.
    """

    place: tuple[Any, ...]
    method: str
    rows: tuple[SweepRow, ...]

    @property
    def verdict(self) -> str:
        """The worst verdict."""
        return max((row.verdict for row in self.rows), key=ORDER.index)

    def median(self, name: str) -> float | None:
        """The median of one field; None if no row has a value, or if it is infinite."""
        values = [getattr(row, name) for row in self.rows]
        if name in STEPS:
            values = [math.inf if value is None else value for value in values]
        middle = median([value for value in values if value is not None] or [math.inf])
        return float(middle) if math.isfinite(middle) else None


def value_at(row: SweepRow, axis: str) -> Any:
    """Return the value of a row on an axis."""
    return row.options.get(axis, row.sample)


def groups(rows: Iterable[SweepRow], axes: Sequence[str]) -> dict[tuple[tuple[Any, ...], str], Group]:
    """Return the groups by their place on the axes and their method, in the order of the rows."""
    rows_by_key: dict[tuple[tuple[Any, ...], str], list[SweepRow]] = {}
    for row in rows:
        rows_by_key.setdefault((tuple(value_at(row, axis) for axis in axes), row.method), []).append(row)
    return {key: Group(*key, tuple(members)) for key, members in rows_by_key.items()}


def short(value: Any) -> str:
    """Return a value of an axis as short text."""
    return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-") if isinstance(value, float) else str(value)


def names(values: Sequence[Any]) -> list[str]:
    """Return the values of an axis as text, with more digits if the short texts are not distinct."""
    few = [short(value) for value in values]
    return (
        few if len(set(few)) == len(few) else [f"{value:g}" if type(value) is float else str(value) for value in values]
    )

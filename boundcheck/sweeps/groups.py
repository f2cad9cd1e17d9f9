"""The rows of a sweep in groups: what is alike but for repetitions (seeds, drawn λ) becomes one line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from boundcheck.report.verdict import Verdict
from boundcheck.sweeps.row import FAILED, NO_GUARANTEE, SweepRow

# from good to bad: verdicts of checks, and what plans are known by
ORDER = ["proved", "probable", "estimated", NO_GUARANTEE, *(verdict.value for verdict in Verdict), FAILED]
STEPS = ("needed", "guaranteed")


@dataclass(frozen=True)
class Group:
    """Rows of one method at the same place; numbers are medians over those that have them, None if none has.

    Steps are the exception: a row without them needs more than were tried, or has no proof, so it counts as infinite.
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
    """Where a row is on an axis."""
    return row.options.get(axis, row.sample)


def groups(rows: Iterable[SweepRow], axes: Sequence[str]) -> dict[tuple[tuple[Any, ...], str], Group]:
    """The groups by place on these axes and method, in the order of the rows."""
    every: dict[tuple[tuple[Any, ...], str], list[SweepRow]] = {}
    for row in rows:
        every.setdefault((tuple(value_at(row, axis) for axis in axes), row.method), []).append(row)
    return {key: Group(*key, tuple(some)) for key, some in every.items()}


def short(value: Any) -> str:
    """A value of an axis in few characters."""
    return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-") if isinstance(value, float) else str(value)


def names(values: Sequence[Any]) -> list[str]:
    """The values of an axis, in as many digits as tell them apart."""
    few = [short(value) for value in values]
    return (
        few if len(set(few)) == len(few) else [f"{value:g}" if type(value) is float else str(value) for value in values]
    )

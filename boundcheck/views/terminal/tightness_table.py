"""How close proved bounds come to the error, by when they can be told: one table for all methods of a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from rich.table import Table

from boundcheck.constants import Side
from boundcheck.report.report import Curve, Report
from boundcheck.report.verdict import Verdict
from boundcheck.theory.kinds import BoundKind
from boundcheck.views.terminal.console import number

KINDS = (BoundKind.A_PRIORI, BoundKind.FROM_SPECTRUM, BoundKind.A_POSTERIORI)
ENCLOSURE = "a posteriori, from a better solution"


class Line(NamedTuple):
    """bound/error of the best bound of a kind over all t above the floor; `at` is the bound where it is largest."""

    kind: str
    least: float
    largest: float
    at: str


def lines(report: Report, curve: Curve) -> Iterator[Line]:
    """One for each kind of which there is a proved bound; the enclosure where its reference is certified."""
    above = curve.errors > curve.floor
    for kind in KINDS:
        ratio = np.where(above, curve.certified(kind) / np.where(above, curve.errors, 1.0), np.nan)
        if np.isfinite(ratio).any():
            place = np.unravel_index(int(np.nanargmax(ratio)), ratio.shape)
            fitting = [b for b in curve.bounds.values() if b.kind is kind and b.verdict is Verdict.HOLDS]
            best = min(fitting, key=lambda b: float(np.nan_to_num(b.values[place], nan=np.inf)))
            yield Line(kind, float(np.nanmin(ratio)), float(np.nanmax(ratio)), best.name)
    found = report.enclosure(curve.method)
    if found.side is Side.UPPER and above.any():
        ratio = found.upper[above] / curve.errors[above]
        yield Line(ENCLOSURE, float(ratio.min()), float(ratio.max()), "enclosure")


def table(report: Report) -> Table:
    made = Table(box=None, pad_edge=False, title="best proved bound/error over t", title_justify="left")
    made.title_style = "bold"
    for title in ("method", "told", "least", "largest", "by"):
        made.add_column(title, justify="right" if title in ("least", "largest") else "left")
    for curve in report.curves.values():
        for i, line in enumerate(lines(report, curve)):
            made.add_row("" if i else curve.method, line.kind, number(line.least), number(line.largest), line.at)
    return made

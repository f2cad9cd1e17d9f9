"""A table of the ratio of proved bounds to the error, by kind of bound, for all methods of a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from boundcheck.report.method_curve import Curve
from boundcheck.report.report import Report
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side
from boundcheck.theory.kinds import BoundKind
from boundcheck.views.terminal.console import number

KINDS = (BoundKind.A_PRIORI, BoundKind.FROM_SPECTRUM, BoundKind.A_POSTERIORI)
ENCLOSURE = "a posteriori, from a better solution"


class TightnessLine(NamedTuple):
    """bound/error of the best bound of a kind over all t above the floor; `where` is the bound with the largest."""

    kind: str
    least: float
    largest: float
    where: str


def lines(report: Report, curve: Curve) -> Iterator[TightnessLine]:
    """Yield a line for each kind that has a proved bound, and one for the enclosure if the reference is certified."""
    above = (curve.errors > curve.floor) & np.isfinite(curve.errors)  # a run that diverges may overflow
    for kind in KINDS:
        ratio = np.where(above, curve.certified(kind) / np.where(above, curve.errors, 1.0), np.nan)
        if np.isfinite(ratio).any():
            place = np.unravel_index(int(np.nanargmax(ratio)), ratio.shape)
            fitting = [b for b in curve.bounds.values() if b.kind is kind and b.verdict is Verdict.HOLDS]
            best = min(fitting, key=lambda b: float(np.nan_to_num(b.values[place], nan=np.inf)))
            yield TightnessLine(kind, float(np.nanmin(ratio)), float(np.nanmax(ratio)), best.name)
    enclosure = report.enclosure(curve.method)
    if enclosure.side is Side.UPPER and above.any():
        ratio = enclosure.upper[above] / curve.errors[above]
        yield TightnessLine(ENCLOSURE, float(ratio.min()), float(ratio.max()), "enclosure")


def show(console: Console, report: Report) -> None:
    """Print the table, or nothing if no bound is proved."""
    table = Table(box=None, pad_edge=False, title="best proved bound/error over t", title_justify="left")
    table.title_style = "bold"
    for title in ("method", "kind", "best", "worst", "bound"):
        table.add_column(title, justify="right" if title in ("best", "worst") else "left")
    for curve in report.curves.values():
        for i, line in enumerate(lines(report, curve)):
            table.add_row("" if i else curve.method, line.kind, number(line.least), number(line.largest), line.where)
    if table.row_count:
        console.print(table)
        console.print()

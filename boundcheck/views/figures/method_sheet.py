"""A sheet with one panel for each method of a report, a headline with the problem, and keys for all panels below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from boundcheck.errors import InputError
from boundcheck.side import standing
from boundcheck.views.figures import canvas, legends, text_shapes
from boundcheck.views.figures.canvas import LINE, SMALL, TEXT, TOP, WIDTH
from boundcheck.views.figures.drawn_bounds import chosen
from boundcheck.views.figures.method_style import GREY, STANDING_DASHES, STANDING_LABELS, style_of

if TYPE_CHECKING:
    from boundcheck.report.method_curve import Curve
    from boundcheck.report.report import Report

GAP = 0.24  # the space between panels in inches
EDGE = 0.08  # the distance of the headline and the keys from the edge of the figure in inches


def about(report: Report) -> str:
    """Return the problem in a few words: name, d, n and dtype."""
    problem = report.problem
    facts = [f"d = {problem['dim']}", f"n = {problem['hdim']}", str(problem.get("dtype", ""))]
    return f"{problem['name']} ({', '.join(fact for fact in facts if fact)})"


def curves_of(report: Report) -> list[Curve]:
    if not report.curves:
        raise InputError("the report has no curves to draw; check at least one method")
    return list(report.curves.values())


def title_of(report: Report, curve: Curve) -> str:
    """Return the title of a panel: the method, its k, and whether it diverges."""
    label = style_of(curve.method).label
    own_k = curve.k is not None and ":" not in curve.method and curve.method != "exact"
    diverges = curve.method in report.diverging or not np.isfinite(curve.errors[:, -1]).all()
    return label + (" $k=t$" if own_k else "") + (": diverges" if diverges else "")


def standing_keys(curves: Sequence[Curve]) -> list[Line2D]:
    """Return a key for each way in which the drawn bounds are known."""
    known = {standing(bound.side) for curve in curves for bound in chosen(curve)}
    return [
        Line2D([], [], color=GREY, lw=1.2, ls=dashes, label=STANDING_LABELS[word])
        for word, dashes in STANDING_DASHES.items()
        if word in known
    ]


class MethodSheet:
    """Panels in at most three columns, with equal axes and a legend below each."""

    def __init__(self, report: Report, what: str, label: str, low: float, high: float) -> None:
        curves = curves_of(report)
        self.columns = {1: 1, 2: 2, 4: 2}.get(len(curves), 3)
        across = WIDTH * self.columns
        self.figure = Figure(figsize=(across, WIDTH))
        self.headline = text_shapes.wrapped(f"{about(report)}: {what}", across - 2 * EDGE, TEXT + 1)
        self.panels: list[tuple[Axes, Curve]] = []
        self.left = 0.0  # inches for the labels of the first column
        self.lines = [0] * -(-len(curves) // self.columns)  # the lines of the longest legend in each row
        all_t = np.concatenate([curve.t for curve in curves])
        for place, curve in enumerate(curves):
            first = place % self.columns == 0
            axes = canvas.panel(self.figure, title_of(report, curve), "$t$", label if first else "")
            canvas.over_t(axes, all_t)
            ticks = canvas.log_axis(axes, "y", low, high, named=first)
            if first:
                self.left = canvas.label_left(axes, ticks)
            self.panels.append((axes, curve))
        self.width = (across - self.left - 0.14 + GAP) / self.columns - GAP

    def legend(self, axes: Axes, handles: list[Any]) -> None:
        row = self.figure.axes.index(axes) // self.columns
        corner = canvas.moved(axes, canvas.inches(axes), -0.06, -canvas.BOTTOM)
        self.lines[row] = max(self.lines[row], legends.legend(axes, handles, corner, self.width + 0.06))

    def sentence(self, axes: Axes, text: str, height: float = 0.5) -> None:
        """Write a sentence into a panel that would otherwise be empty."""
        words = text_shapes.wrapped(text, self.width - 0.3, SMALL)
        canvas.write(axes, 0.5, height, words, axes.transAxes, ha="center", color=GREY, gid="why empty")

    def arranged(self, keys: Sequence[Line2D | Patch]) -> Figure:
        """Set the size of the figure, arrange its panels and return it; `keys` are for all panels."""
        head = 0.12 + (TEXT + 1) / 72 * 1.36 * (1 + self.headline.count("\n"))
        heights = [TOP + canvas.HEIGHT + canvas.BOTTOM + LINE * lines + 0.06 for lines in self.lines]
        rows = legends.key_rows(keys, WIDTH * self.columns - 2 * EDGE)
        total = head + sum(heights) + LINE * len(rows) + (0.06 if rows else 0)
        self.figure.set_figheight(total)
        for place, (axes, _) in enumerate(self.panels):
            row, column = divmod(place, self.columns)
            left = self.left + column * (self.width + GAP)
            canvas.place(axes, left, head + sum(heights[:row]) + TOP, self.width, canvas.HEIGHT)
        first, on_paper = self.panels[0][0], self.figure.dpi_scale_trans
        style: dict[str, Any] = {"fontsize": TEXT + 1, "va": "top", "gid": "headline"}
        canvas.write(first, EDGE, total - EDGE, self.headline, on_paper, **style)
        for i, of_row in enumerate(rows):
            legends.keys_in_line(first, of_row, on_paper, EDGE, LINE * (len(rows) - i - 0.5) + 0.05)
        return self.figure

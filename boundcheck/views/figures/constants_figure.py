"""A figure of the constants of a report on every ball, with how each is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from boundcheck.errors import InputError
from boundcheck.side import in_words
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.figures import canvas, legends, text_shapes
from boundcheck.views.figures.canvas import LINE, SMALL, TEXT, TOP, WIDTH
from boundcheck.views.figures.method_sheet import about
from boundcheck.views.figures.method_style import GREY, ORANGE
from boundcheck.views.figures.plain_maths import maths

if TYPE_CHECKING:
    from boundcheck.report.report import Report

BALLS = ("black", ORANGE, GREY)  # different from the colours of methods
MARKERS = {
    "proved, exact": "o", "proved upper bound": "^", "proved lower bound": "v", "probable upper bound": "D",
    "probable lower bound": "d", "estimated from below": "v", "estimated from above": "^",
}  # fmt: skip
ROW, MORE = 0.25, 0.135  # the height of a row, and of each additional line in it, in inches


def constants(report: Report) -> Figure:
    """Draw every constant on every ball. The marker shows how it is known; hollow markers are estimates.

    Parameters
    ----------
    report : Report
        The result of `check`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.

    Raises
    ------
    InputError
        If the report has no constants.

    Examples
    --------
    >>> import boundcheck as bc
    >>> report = bc.check("scalar", ["itd"], t=5, bounds=["itd"])
    >>> len(bc.plot.constants(report).axes)
    1
    """
    by_ball = report.constants
    names = [name for name in QUANTITIES if any(name in constants for constants in by_ball.values())]
    if not names:
        raise InputError("the report has no constants to draw; check at least one bound")
    values = [constant.value for constants in by_ball.values() for constant in constants.values()]
    low, high = canvas.extent([np.array(values)])
    zero = low * (low / high) ** 0.06
    symbols = [f"${QUANTITIES[name].latex}$".replace(r"\star", "*") for name in names]
    meanings = [text_shapes.wrapped(maths(QUANTITIES[name].meaning), 2.3, SMALL) for name in names]
    heights = np.array([ROW + MORE * meaning.count("\n") for meaning in meanings])
    rows = heights.cumsum() - heights / 2  # inches from the top of the panel
    room = 0.22 + max(text_shapes.width(text, TEXT + 1) for text in symbols)
    left = room + 0.05 + max(text_shapes.width(text, SMALL) for text in meanings)
    handles = _keys(report)
    lines = legends.key_rows(handles, 2 * WIDTH - 0.16)
    foot = 0.5 + LINE * len(lines)
    figure = Figure(figsize=(2 * WIDTH, TOP + heights.sum() + foot))
    axes = canvas.panel(figure, "", "value")
    canvas.place(axes, left, TOP, 2 * WIDTH - left - 0.12, heights.sum())
    headline = f"{about(report)}: the constants in the bounds, at the first λ"
    on_paper = figure.dpi_scale_trans
    canvas.write(axes, 0.08, figure.get_figheight() - 0.13, headline, on_paper, fontsize=TEXT + 1, gid="headline")
    canvas.log_axis(axes, "x", low, high, zero)
    axes.set_xlim(zero * (low / high) ** 0.03, high)
    axes.set_ylim(heights.sum(), 0)
    axes.hlines(rows, *axes.get_xlim(), color="0.92", lw=0.6, zorder=0, gid="rows")
    axes.axvline((zero * low) ** 0.5, color=GREY, lw=0.8, ls=":")
    _words(axes, rows, symbols, 0.1, fontsize=TEXT + 1, gid="symbol")
    _words(axes, rows, meanings, room, color=GREY)
    _marks(axes, report, names, rows, zero)
    for i, of_row in enumerate(lines):
        legends.keys_in_line(axes, of_row, on_paper, 0.08, LINE * (len(lines) - i - 0.5) + 0.05)
    return figure


def _words(axes: Axes, rows: np.ndarray, texts: list[str], away: float, **style: Any) -> None:
    beside = canvas.moved(axes, axes.get_yaxis_transform(), -away, 0)
    for row, text in zip(rows, texts, strict=True):
        canvas.write(axes, 0, float(row), text, beside, ha="right", **style)


def _marks(axes: Axes, report: Report, names: list[str], rows: np.ndarray, zero: float) -> None:
    """Draw the values on each ball, one below the other in a row; 0 is at `zero`."""
    for place, (ball, colour) in enumerate(zip(report.constants, BALLS, strict=False)):
        shift = 0.09 * (place - (min(len(report.constants), len(BALLS)) - 1) / 2)
        for words, marker in MARKERS.items():
            places = [i for i, name in enumerate(names) if _known(report, ball, name) == words]
            if places:
                values = [report.constants[ball][names[i]].value or zero for i in places]
                style: dict[str, Any] = {"color": colour, "ls": "", "ms": 4.5, "gid": f"{ball} {words}"}
                axes.add_artist(Line2D(values, list(rows[places] + shift), marker=marker, **style, **_face(words)))


def _known(report: Report, ball: str, name: str) -> str:
    """Return how a constant is known, in words; empty if the report does not have it."""
    constant = report.constants[ball].get(name)
    return in_words(constant.side, name) if constant is not None else ""


def _face(words: str) -> dict[str, Any]:
    return {"mfc": "white"} if words.startswith("estimated") else {}


def _keys(report: Report) -> list[Line2D]:
    balls = dict(zip(report.constants, BALLS, strict=False))
    handles = [Line2D([], [], color=colour, lw=4, label=f"{ball} ball") for ball, colour in balls.items()]
    known = {_known(report, ball, name) for ball, some in report.constants.items() for name in some}
    for words in (words for words in MARKERS if words in known):
        style: dict[str, Any] = {"color": "black", "ls": "", "ms": 4.5, "marker": MARKERS[words]}
        handles.append(Line2D([], [], label=words, **style, **_face(words)))
    return handles

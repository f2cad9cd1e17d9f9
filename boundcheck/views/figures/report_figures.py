"""Pictures of a report, for papers: each function returns a Figure, and `save` writes it; no display is needed."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from boundcheck.ball import BallKind
from boundcheck.errors import InputError
from boundcheck.side import Side
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.figures import canvas, text_shapes
from boundcheck.views.figures.canvas import (
    BLUE,
    GREEN,
    GREY,
    LINE,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    TEXT,
    TOP,
    VERMILLION,
    WIDTH,
    save,
)
from boundcheck.views.figures.drawn_bounds import attained, chosen, label_of
from boundcheck.views.figures.proof_figure import trace, trace_over_t, waterfall
from boundcheck.views.figures.run_figure import along_run

if TYPE_CHECKING:
    from boundcheck.report.method_curve import Curve
    from boundcheck.report.report import Report

__all__ = ["along_run", "chosen", "constants", "errors", "save", "tightness", "trace", "trace_over_t", "waterfall"]

COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, GREY)
DASHES = ((0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.2, 1, 1.2)), (0, (3, 1, 1, 1, 1, 1)))
STYLES = {BallKind.PAPER: "-", BallKind.LOCAL: (0, (4, 1.5))}
AFTER = (0, (1, 1))  # how an a posteriori bound is drawn among others
MARKERS = "os^DvPX*<>"
SIDES = {Side.EXACT: "o", Side.UPPER: "^", Side.HIGH_PROBABILITY: "D", Side.LOWER: "v"}
ERROR = r"$\|g(\lambda)-\nabla f(\lambda)\|$"
FLOOR = "0.87"
GAP = 0.24  # between panels, inches


def errors(report: Report) -> Figure:
    """Draw the error of every method over t, the rounding floor, and at most four bounds for each method.

    Of several λ it shows the mean with a band of one standard deviation, cut below at the least error.

    Parameters
    ----------
    report : Report
        What `check` returned.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.
    """
    low, high = _limits(_curves(report))
    sheet = _Sheet(report, ERROR, low, high)
    for (axes, curve), colour in zip(sheet.panels, cycle(COLOURS), strict=False):
        drawn, samples = chosen(curve), len(curve.errors)
        finite = np.where(np.isfinite(curve.errors).all(axis=0), curve.errors, np.nan)
        error, floor = finite.mean(axis=0), np.where(np.isfinite(curve.floor), curve.floor, high).mean(axis=0)
        above = np.where(error > floor, error, np.nan)
        alone = len(curve.t) == 1  # a point is not a line
        axes.fill_between(curve.t, low / 10, floor, color=FLOOR, lw=0)
        label = "error"
        if samples > 1:
            label += f", mean ± std over {samples} λ"
            below = np.maximum(error - finite.std(axis=0), finite.min(axis=0)).clip(min=low / 10)
            axes.fill_between(curve.t, below, error + finite.std(axis=0), color=colour, alpha=0.2, lw=0)
        label += "" if np.isfinite(above).any() else ", nowhere above the floor"
        marker = "o" if alone else ""
        axes.plot(curve.t, error, color=colour, lw=1.2, alpha=0.35, marker=marker, ms=4, gid="faint")
        handles: list[Any] = axes.plot(curve.t, above, color=colour, lw=1.6, marker=marker, ms=4, label=label)
        for bound, dashes in zip(drawn, DASHES, strict=False):
            style: dict[str, Any] = {"color": colour, "lw": 1.3, "ls": dashes, "marker": "_" if alone else ""}
            style |= {"label": label_of(bound) + attained(bound), "gid": bound.name}
            handles += axes.plot(curve.t, canvas.mean(bound.values), **style)
        if (floor > low).any():
            handles.append(Patch(color=FLOOR, label="below the rounding floor"))
        others = [name for name, bound in curve.applicable.items() if bound not in drawn]
        if others or not drawn:
            handles.append(canvas.note(f"not drawn: {', '.join(others)}" if others else "no bound applies"))
        sheet.legend(axes, handles)
    return sheet.arranged()


def tightness(report: Report) -> Figure:
    """Draw bound/error over t for every bound that applies, with its best and worst value.

    Nothing is drawn where rounding decides. Of several λ it shows the geometric mean, faint where not all of them are
    above the floor.

    Parameters
    ----------
    report : Report
        What `check` returned.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.
    """
    ratios = [bound.tightness for curve in _curves(report) for bound in curve.applicable.values()]
    sheet = _Sheet(report, "bound / error", *canvas.extent([*ratios, np.ones(1)]))
    for axes, curve in sheet.panels:
        axes.axhline(1, color="black", lw=0.8, gid="one")
        handles: list[Any] = []
        ranked = sorted(curve.applicable.values(), key=lambda bound: (bound.ball != BallKind.PAPER, bound.name))
        step = max(1, len(curve.t) // 4)
        for i, bound in enumerate(ranked):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.exp(canvas.mean(np.log(bound.tightness)))
            of_all = np.where(np.isnan(bound.tightness).any(axis=0), np.nan, ratio)
            span = "every error is at the floor"
            if bound.best is not None and bound.worst is not None:
                span = f"{canvas.number(bound.best)} to {canvas.number(bound.worst)}"
            dashes = AFTER if bound.kind is BoundKind.A_POSTERIORI else STYLES.get(bound.ball, "-.")
            style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "ls": dashes, "lw": 1.3}
            if np.isnan(of_all[np.isfinite(ratio)]).any():
                axes.plot(curve.t, ratio, alpha=0.35, gid="faint", **style)
            style |= {"marker": MARKERS[i % len(MARKERS)], "ms": 3.5, "markevery": (i * step // len(ranked), step)}
            handles += axes.plot(curve.t, of_all, label=f"{label_of(bound)}: {span}", gid=bound.name, **style)
        sheet.legend(axes, handles or [canvas.note("no bound applies")])
    return sheet.arranged()


def constants(report: Report) -> Figure:
    """Draw every constant on every ball; the marker shows the side on which the value is.

    Parameters
    ----------
    report : Report
        What `check` returned.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.

    Raises
    ------
    InputError
        If the report has no constants.
    """
    by_ball = report.constants
    names = [name for name in QUANTITIES if any(name in constants for constants in by_ball.values())]
    if not names:
        raise InputError("the report has no constants to draw; check at least one bound")
    every = [constant for constants in by_ball.values() for constant in constants.values()]
    low, high = canvas.extent([np.array([constant.value for constant in every])])
    zero = low * (low / high) ** 0.06
    symbols = [f"${QUANTITIES[name].latex}$".replace(r"\star", "*") for name in names]
    meanings = [text_shapes.wrapped(QUANTITIES[name].meaning, 2.2, SMALL) for name in names]
    room = 0.22 + max(text_shapes.width(text, TEXT + 1) for text in symbols)
    left = room + 0.05 + max(text_shapes.width(text, SMALL) for text in meanings)
    height = 0.27 * len(names)
    figure = Figure(figsize=(2 * WIDTH, TOP + height + 0.72))
    axes = canvas.panel(figure, "Constants", "value")
    canvas.place(axes, left, TOP, 2 * WIDTH - left - 0.12, height)
    canvas.log_axis(axes, "x", low, high, zero)
    axes.set_xlim(zero * (low / high) ** 0.03, high)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.hlines(range(len(names)), *axes.get_xlim(), color="0.92", lw=0.6, zorder=0, gid="rows")
    axes.axvline((zero * low) ** 0.5, color=GREY, lw=0.8, ls=":")
    beside = canvas.moved(axes, axes.get_yaxis_transform(), -0.1, 0)
    for row, symbol in enumerate(symbols):
        canvas.write(axes, 0, row, symbol, beside, ha="right", fontsize=TEXT + 1, gid="symbol")
    beside = canvas.moved(axes, axes.get_yaxis_transform(), -room, 0)
    for row, meaning in enumerate(meanings):
        canvas.write(axes, 0, row, meaning, beside, ha="right", color=GREY)
    balls = dict(zip(report.constants, (BLUE, ORANGE, GREEN), strict=False))
    for place, (ball, colour) in enumerate(balls.items()):
        for side, marker in SIDES.items():
            positions = [
                i for i, name in enumerate(names) if name in by_ball[ball] and by_ball[ball][name].side is side
            ]
            values = [by_ball[ball][names[i]].value or zero for i in positions]
            style: dict[str, Any] = {"color": colour, "ls": "", "ms": 4.5, "gid": f"{ball} {side.value}"}
            style |= {"mfc": "white"} if side is Side.LOWER else {}
            if positions:
                rows = np.array(positions) + 0.34 * (place - (len(balls) - 1) / 2)
                axes.add_artist(Line2D(values, rows, marker=marker, **style))
    handles = [Line2D([], [], color=colour, lw=4, label=f"{ball} ball") for ball, colour in balls.items()]
    for side in (side for side in SIDES if side in {constant.side for constant in every}):
        face = "white" if side is Side.LOWER else "black"
        handles.append(Line2D([], [], color="black", ls="", marker=SIDES[side], mfc=face, ms=4.5, label=side.value))
    canvas.legend_line(axes, handles, figure.dpi_scale_trans, WIDTH, 0.12)
    return figure


def _method(name: str, k: np.ndarray | None) -> str:
    name, _, fixed = name.partition(":")
    if name == "itd-truncated":
        return f"ITD through the last {fixed} steps"
    return name.upper() if k is None or name == "exact" else f"{name.upper()} $k={fixed or 't'}$"


def _curves(report: Report) -> list[Curve]:
    if not report.curves:
        raise InputError("the report has no curves to draw; check at least one method")
    return list(report.curves.values())


def _limits(curves: list[Curve]) -> tuple[float, float]:
    """From the least error, or a decade below the floor, to the largest of the errors and of the bounds drawn."""
    low, high = canvas.extent([curve.errors for curve in curves])
    floor, _ = canvas.extent([curve.floor for curve in curves], room=10)
    _, top = canvas.extent([np.array([high / 2]), *(bound.values for curve in curves for bound in chosen(curve))])
    return (max(low, floor) if floor < high / 10 else low), max(high, top)


class _Sheet:
    """One panel for each method, in at most three columns, with equal axes and a legend below each."""

    def __init__(self, report: Report, label: str, low: float, high: float) -> None:
        curves = list(report.curves.values())
        self.columns = {1: 1, 2: 2, 4: 2}.get(len(curves), 3)
        self.figure = Figure(figsize=(WIDTH * self.columns, WIDTH))
        self.panels: list[tuple[Axes, Curve]] = []
        self.left = 0.0  # of the first column, for its labels
        self.lines = [0] * -(-len(curves) // self.columns)  # of the longest legend in each row
        every = np.concatenate([curve.t for curve in curves])
        for place, curve in enumerate(curves):
            first = place % self.columns == 0
            axes = canvas.panel(self.figure, _method(curve.method, curve.k), "$t$", label if first else "")
            canvas.over_t(axes, every)
            ticks = canvas.log_axis(axes, "y", low, high, named=first)
            if first:
                self.left = canvas.label_left(axes, ticks)
            self.panels.append((axes, curve))
        self.width = (WIDTH * self.columns - self.left - 0.14 + GAP) / self.columns - GAP

    def legend(self, axes: Axes, handles: list[Any]) -> None:
        row = self.figure.axes.index(axes) // self.columns
        corner = canvas.moved(axes, canvas.inches(axes), -0.06, -canvas.BOTTOM)
        self.lines[row] = max(self.lines[row], canvas.legend(axes, handles, corner, self.width + 0.06))

    def arranged(self) -> Figure:
        heights = [TOP + canvas.HEIGHT + canvas.BOTTOM + LINE * lines + 0.06 for lines in self.lines]
        self.figure.set_figheight(sum(heights))
        for place, (axes, _) in enumerate(self.panels):
            row, column = divmod(place, self.columns)
            left = self.left + column * (self.width + GAP)
            canvas.place(axes, left, sum(heights[:row]) + TOP, self.width, canvas.HEIGHT)
        return self.figure

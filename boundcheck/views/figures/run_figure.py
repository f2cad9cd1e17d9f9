"""A figure of an upper-level run: error, distance to w(λ), the angle or the t that was needed, and f."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from boundcheck.errors import InputError
from boundcheck.views.figures import canvas, legends
from boundcheck.views.figures.canvas import BOTTOM, GREY, HEIGHT, LINE, TOP, WIDTH
from boundcheck.views.figures.method_style import style_of

if TYPE_CHECKING:
    from boundcheck.report.run_trace import RunTrace

MARKERS = "os^D"
DARKER = (1.0, 0.45, 0.7, 0.2)  # brightness of the runs of a method, which share its colour
BOUND, ESTIMATE, WANTED = (0, (5, 1.5)), (0, (1, 1)), (0, (7, 1.5, 1, 1.5))
GAP = 0.55  # the space between columns in inches, for the labels of the right one
STYLE: dict[str, Any] = {"lw": 1.3, "ms": 3.5}


def along_run(traces: RunTrace | Mapping[str, RunTrace]) -> Figure:
    """Draw one or several upper-level runs over their steps.

    There are four panels: the relative error of the hypergradient; r_t = ‖w − w(λ)‖ with its bound from the start and
    its estimate from the previous step; the angle to ∇f, or if an error was requested, the t that would have reached
    it; and f. Full markers are proved, hollow markers are estimates.

    Parameters
    ----------
    traces : RunTrace, or mapping from str to RunTrace
        The result of `follow`, or `Watch.trace`; or several of them by their names in the legend.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.

    Raises
    ------
    InputError
        If there are no rows to draw.

    Examples
    --------
    >>> import boundcheck as bc
    >>> trace = bc.follow(bc.problems.scalar(q=0.5), outer_step=0.01, steps=3, method="itd", t=10)
    >>> len(bc.plot.along_run(trace).axes)
    4
    """
    named = dict(traces) if isinstance(traces, Mapping) else {_name(traces): traces}
    if not any(len(trace) for trace in named.values()):
        raise InputError("the run has no rows to draw; watch at least one step")
    sheet = _Sheet(np.concatenate([trace.column("step") for trace in named.values()]))
    _errors(sheet.panel("relative error of g, at most", "", named, ["relative_error"], _wanted(named)), named)
    distances = ["r_t", "r_t_bound", "r_t_estimate"]
    _distances(sheet.panel(r"$r_t=\|w-w(\lambda)\|$", "", named, distances), named)
    if any(trace.rtol is not None for trace in named.values()):
        _enough(sheet.panel("$t$ needed for the wanted error", "", named, ["t_enough", "t"]), named)
    else:
        _lines(sheet.panel("angle between g and ∇f, at most (degrees)", "", named, ["angle"]), named, "angle")
    _lines(sheet.panel("f(λ), estimated", "", named, ["f"], log=False), named, "f", hollow=True)
    return sheet.arranged(named)


def _name(trace: RunTrace) -> str:
    return {True: "warm start", False: "cold start", None: "run"}[trace.warm]


def _wanted(named: Mapping[str, RunTrace]) -> list[float]:
    return [trace.rtol for trace in named.values() if trace.rtol is not None]


def _styles(named: Mapping[str, RunTrace]) -> list[tuple[RunTrace, dict[str, Any]]]:
    """Return the style of every run: the colour of its method, and its own marker."""
    runs, before = [], Counter[str]()
    for trace, marker in zip(named.values(), cycle(MARKERS), strict=False):
        colour = style_of(trace.method or "run").colour
        part = DARKER[before[colour] % len(DARKER)]
        before[colour] += 1
        runs.append((trace, {"color": _darker(colour, part), "marker": marker, **STYLE}))
    return runs


def _darker(colour: str, part: float) -> str:
    red, green, blue = to_rgb(colour)
    return to_hex((part * red, part * green, part * blue))


def _lines(axes: Axes, named: Mapping[str, RunTrace], column: str, *, hollow: bool = False) -> None:
    for trace, style in _styles(named):
        steps, values = trace.column("step"), trace.column(column)
        proofs = np.array([row.proved and not hollow for row in trace.rows], dtype=bool)
        axes.plot(steps, values, **{**style, "marker": ""}, gid=column)
        for subset, face in ((proofs, style["color"]), (~proofs, "white")):
            axes.plot(steps[subset], values[subset], **style | {"ls": "", "mfc": face}, gid=f"{column} marks")


def _errors(axes: Axes, named: Mapping[str, RunTrace]) -> None:
    for rtol in dict.fromkeys(_wanted(named)):
        axes.axhline(rtol, color=GREY, lw=0.9, ls=WANTED, gid="wanted")
    _lines(axes, named, "relative_error")


def _distances(axes: Axes, named: Mapping[str, RunTrace]) -> None:
    for trace, style in _styles(named):
        for column, dashes in (("r_t_bound", BOUND), ("r_t_estimate", ESTIMATE)):
            axes.plot(
                trace.column("step"), trace.column(column), color=style["color"], lw=1.1, ls=dashes, gid=column
            )  # fmt: skip
    _lines(axes, named, "r_t")


def _enough(axes: Axes, named: Mapping[str, RunTrace]) -> None:
    _lines(axes, named, "t_enough")
    for trace, style in _styles(named):
        axes.plot(trace.column("step"), trace.column("t"), color=style["color"], lw=0.9, ls=WANTED, gid="t")


class _Sheet:
    """Two rows of two panels with one legend below."""

    def __init__(self, steps: np.ndarray) -> None:
        self.figure = Figure(figsize=(2 * WIDTH, 2 * WIDTH))
        self.steps = steps
        self.left = 0.0  # inches for the labels of the left column

    def panel(
        self, title: str, label: str, named: Mapping[str, RunTrace], columns: list[str],
        also: list[float] | None = None, *, log: bool = True,
    ) -> Axes:  # fmt: skip
        axes = canvas.panel(self.figure, title, "upper-level step", label)
        axes.set_xlim(float(self.steps.min()) - 0.5, float(self.steps.max()) + 0.5)
        canvas.linear_axis(axes, "x", integer=True)
        values = np.concatenate([trace.column(name) for trace in named.values() for name in columns])
        values = np.concatenate([values, np.array(also or [], dtype=float)])
        if log:
            ticks = canvas.log_axis(axes, "y", *canvas.extent([values]))
        else:
            ticks = _linear(axes, values[np.isfinite(values)])
        if len(self.figure.axes) % 2:
            self.left = max(self.left, ticks + 0.08)
        return axes

    def arranged(self, named: Mapping[str, RunTrace]) -> Figure:
        width = (2 * WIDTH - self.left - GAP - 0.14) / 2
        handles = _legend(named)
        row = TOP + HEIGHT + BOTTOM
        self.figure.set_figheight(2 * row + LINE * len(handles) + 0.12)
        for place, axes in enumerate(self.figure.axes):
            down, across = divmod(place, 2)
            canvas.place(axes, self.left + across * (width + GAP), down * row + TOP, width, HEIGHT)
        last = self.figure.axes[2]
        corner = canvas.moved(last, canvas.inches(last), -0.06, -BOTTOM)
        legends.legend(last, handles, corner, 2 * width + GAP)
        return self.figure


def _linear(axes: Axes, values: np.ndarray) -> float:
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    room = 0.06 * (high - low) or 0.5
    axes.set_ylim(low - room, high + room)
    return canvas.linear_axis(axes, "y")


def _legend(named: Mapping[str, RunTrace]) -> list[Line2D]:
    handles = [
        Line2D([], [], **style, label=f"{name}: {_summary(trace)}")
        for name, (trace, style) in zip(named, _styles(named), strict=True)
    ]
    handles.append(Line2D([], [], color=GREY, marker="o", mfc="white", ls="", ms=3.5, label="hollow: estimated"))
    rows = [row for trace in named.values() for row in trace.rows]
    if any(row.bound is not None for row in rows):
        handles.append(Line2D([], [], color=GREY, lw=1.1, ls=BOUND, label=r"bound of $r_t$ from the start: $q^t\,r_0$"))
    if any(row.estimate is not None for row in rows):
        label = r"estimate of $r_t$ from the step before: $q^t\,(r+\|w'\|\,\|\Delta\lambda\|)$, $w'$ at one end"
        handles.append(Line2D([], [], color=GREY, lw=1.1, ls=ESTIMATE, label=label))
    if _wanted(named):
        handles.append(
            Line2D([], [], color=GREY, lw=0.9, ls=WANTED, label="wanted relative error, and the t that was used")
        )
    return handles


def _summary(trace: RunTrace) -> str:
    certain = sum(row.descent is True for row in trace.rows)
    return (
        f"{trace.problem} {trace.method}".strip()
        + f", descent direction for certain at {certain} of {len(trace)} steps"
    )

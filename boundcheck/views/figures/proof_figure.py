"""Figures of a proof: its links at one t as a waterfall, over t as a stack, or both side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import blended_transform_factory

from boundcheck.errors import InputError
from boundcheck.views.bound_names import bound_name
from boundcheck.views.figures import canvas, legends, text_shapes
from boundcheck.views.figures.canvas import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    TEXT,
    TOP,
    VERMILLION,
    WIDTH,
    YELLOW,
)
from boundcheck.views.figures.method_sheet import about
from boundcheck.views.figures.method_style import style_of

if TYPE_CHECKING:
    from boundcheck.report.method_curve import BoundCurve, Curve, Trace
    from boundcheck.report.report import Report

LAYERS = (BLUE, PURPLE, YELLOW, GREY, ORANGE, GREEN, SKY)  # neighbours differ in grey too
VALUE, SLACK = "value after each step of the proof", "log₁₀ of the slack"
BELOW = 0.48  # ticks and a label below a panel, in inches
MARGIN = 0.12  # space on the right for half a label, in inches
LEAST_HEIGHT = 1.8  # the least height of a panel in inches
LESS = 0.999  # if an unbroken link has a smaller slack, rounding dominates at this t
NAMES = 1.75  # the largest width of the name of a link beside another panel, in inches


def waterfall(trace: Trace, title: str = "From the error to the bound", t: int | None = None) -> Figure:
    """Draw the proof at one t: for each link a bar from the value before it to the value after it.

    Parameters
    ----------
    trace : Trace
        The proof of a bound on a problem, from `Report.trace`.
    title : str
        The title of the figure.
    t : int, optional
        A t at which the proof was traced; the last one by default.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.

    Raises
    ------
    InputError
        If the proof was not traced at t.

    Examples
    --------
    >>> import boundcheck as bc
    >>> report = bc.check("scalar", ["itd"], t=5, bounds=["itd"])
    >>> len(bc.plot.waterfall(report.trace("itd"), t=3).axes)
    1
    """
    place = _place(trace, t)
    because = [
        text_shapes.wrapped(text, 2.4, SMALL) for text in (*trace.because, f"bound / error = {_ratio(trace, place)}")
    ]
    heights = np.array([0.26 + 0.125 * (1 + text.count("\n")) for text in because])
    left = 0.2 + max(
        *(text_shapes.width(text, SMALL) for text in because), *(text_shapes.width(name, TEXT) for name in trace.links)
    )
    title, top = _headline(f"{title}, $t={trace.t[place]}$")
    figure = Figure(figsize=(2 * WIDTH, top + heights.sum() + BELOW))
    axes = canvas.panel(figure, title, VALUE)
    canvas.place(axes, left, top, 2 * WIDTH - left - MARGIN, heights.sum())
    _across(axes, left)
    tops = _bars(axes, trace, place, heights, 2 * WIDTH - left - MARGIN)
    beside = blended_transform_factory(canvas.inches(axes), axes.transData)
    for name, text, top in zip((*trace.links, "bound"), because, tops, strict=True):
        canvas.write(axes, -0.1, top + 0.05, name, beside, ha="right", va="top", fontsize=TEXT, gid="link")
        canvas.write(axes, -0.1, top + 0.19, text, beside, ha="right", va="top", color=GREY)
    return figure


def trace_over_t(trace: Trace, title: str = "Where the bound is lost") -> Figure:
    """Draw log₁₀ of the slack of every link over t, stacked, so that the top is log₁₀(bound/error).

    Parameters
    ----------
    trace : Trace
        The proof of a bound on a problem, from `Report.trace`.
    title : str
        The title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.

    Examples
    --------
    >>> import boundcheck as bc
    >>> report = bc.check("scalar", ["itd"], t=5, bounds=["itd"])
    >>> len(bc.plot.trace_over_t(report.trace("itd")).axes)
    1
    """
    title, top = _headline(title)
    figure = Figure(figsize=(2 * WIDTH, 3.0))
    axes = canvas.panel(figure, title, "$t$", SLACK)
    left, width = _stack(axes, trace), 4.2
    handles: list[Any] = []
    for i, name in enumerate(trace.links[1:], start=1):
        label = f"{name}, ×{canvas.number(trace.slacks[i, -1])}"
        if not trace.broken[i].all():
            handles.insert(0, Patch(label=label, **_layer(i)))
        if trace.broken[i].any():
            handles.append(Patch(label=f"broken: {label}", **_wrong()))
    handles.insert(0, Line2D([], [], color="black", lw=1.4, label="bound / error"))
    corner = canvas.moved(axes, canvas.inches(axes, 1, 1), 0.1, 0)
    room = 2 * WIDTH - left - width - 0.15
    lines = legends.legend(axes, handles, corner, room, f"slack at $t={trace.t[-1]}$")
    height = max(3.0 - TOP - BELOW, canvas.LINE * lines + 0.05)
    figure.set_figheight(top + height + BELOW)
    canvas.place(axes, left, top, width, height)
    _across(axes, left)
    return figure


def trace(trace: Trace, title: str = "From the error to the bound", t: int | None = None) -> Figure:
    """Draw the waterfall at one t beside the stack over t. Links and layers have the same colours.

    Parameters
    ----------
    trace : Trace
        The proof of a bound on a problem, from `Report.trace`.
    title : str
        The title of the figure.
    t : int, optional
        A t at which the proof was traced; the last one by default.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.

    Raises
    ------
    InputError
        If the proof was not traced at t.

    Examples
    --------
    >>> import boundcheck as bc
    >>> report = bc.check("scalar", ["itd"], t=5, bounds=["itd"])
    >>> len(bc.plot.trace(report.trace("itd"), t=3).axes)
    2
    """
    place = _place(trace, t)
    names = [text_shapes.wrapped(name, NAMES, TEXT) for name in (*trace.links, "bound")]
    heights = np.array([0.24 + 0.14 * name.count("\n") for name in names])
    heights[-1] += 0.12
    heights *= max(1.0, LEAST_HEIGHT / heights.sum())
    title, top = _headline(title)
    figure = Figure(figsize=(2 * WIDTH, top + heights.sum() + BELOW))
    bars = canvas.panel(figure, title, f"value after each step, $t={trace.t[place]}$")
    stack = canvas.panel(figure, "", "$t$", SLACK)
    error = f"{_ratio(trace, place)} × the error"
    left = 0.32 + max(*(text_shapes.width(name, TEXT) for name in names), text_shapes.width(error, SMALL))
    gap = _stack(stack, trace)
    width = (2 * WIDTH - left - gap - 2 * MARGIN) / 2
    canvas.place(bars, left, top, width, heights.sum())
    canvas.place(stack, left + width + MARGIN + gap, top, width, heights.sum())
    _across(bars, left)
    tops = _bars(bars, trace, place, heights, width, layered=True)
    beside = blended_transform_factory(canvas.inches(bars), bars.transData)
    style: dict[str, Any] = {"transform": beside, "clip_on": False, "gid": "key"}
    for i, (name, middle) in enumerate(zip(names, tops + heights / 2, strict=True)):
        last = i == len(trace.links)
        canvas.write(bars, -0.24, middle - 0.06 * last, name, beside, ha="right", fontsize=TEXT, gid="link")
        if last:
            bars.add_artist(Line2D([-0.18, -0.06], [middle - 0.06] * 2, color="black", lw=1.4, **style))
            canvas.write(bars, -0.24, middle + 0.08, error, beside, ha="right", color=GREY)
        elif i:
            colours = _wrong() if trace.broken[i].all() else _layer(i)
            bars.add_artist(Rectangle((-0.18, middle - 0.06), 0.12, 0.12, **colours, **style))
    return figure


def trace_title(report: Report, curve: Curve, bound: BoundCurve) -> str:
    """Return the title of the figure of a proof: the problem, the method and the bound."""
    named = bound_name(bound.name, bound.reference)
    return f"{about(report)}: from the error of {style_of(curve.method).label} to its bound {named}"


def _headline(title: str) -> tuple[str, float]:
    """Return the title, wrapped to the width of the figure, and the inches above the panels."""
    wrapped = text_shapes.wrapped(title, 2 * WIDTH - 0.2, TEXT + 1)
    return wrapped, TOP + 1.36 * (TEXT + 1) / 72 * wrapped.count("\n")


def _across(axes: Axes, left: float) -> None:
    """Move the title of a panel, which is `left` inches from the edge, to the left edge of the figure."""
    axes.title.set(x=0, y=0, ha="left", va="bottom")
    axes.title.set_transform(canvas.moved(axes, canvas.inches(axes, 0, 1), 0.08 - left, 0.05))


def _place(trace: Trace, t: int | None) -> int:
    t = trace.t[-1] if t is None else t
    if t not in trace.t:
        raise InputError(f"t = {t} is not in the trace; give one of {trace.t[0]} … {trace.t[-1]}")
    return int(np.flatnonzero(trace.t == t)[0])


def _ratio(trace: Trace, place: int) -> str:
    with np.errstate(divide="ignore", invalid="ignore"):
        return canvas.number(trace.values[-1, place] / trace.values[0, place])


def _layer(i: int) -> dict[str, Any]:
    style = {"facecolor": LAYERS[(i - 1) % len(LAYERS)], "edgecolor": "white", "lw": 0.6}
    return style | {"hatch": "" if i <= len(LAYERS) else "////"}


def _wrong() -> dict[str, Any]:
    return {"facecolor": VERMILLION, "edgecolor": "white", "lw": 0.6}


def _bars(
    axes: Axes, trace: Trace, place: int, heights: np.ndarray, width: float, *, layered: bool = False
) -> np.ndarray:
    """Draw values as bars, with slacks as text, in rows of these heights; returns the top of each row in inches."""
    values, slacks, broken = trace.values[:, place], trace.slacks[:, place], trace.broken[:, place]
    remarks = [" broken" if bad else " (rounding)" if x < LESS else "" for x, bad in zip(slacks, broken, strict=True)]
    labels = [f"×{canvas.number(x)}{remark}" for x, remark in zip(slacks, remarks, strict=True)]
    labels = [canvas.number(values[0]), *labels[1:], canvas.number(values[-1])]
    low, high = canvas.extent([values], room=1, least=1.2)
    low *= (low / high) ** 0.04
    ends = np.where(np.isnan(values), low, values).clip(low, high)
    ends = np.append(ends, ends[-1])
    reach = np.log(np.maximum(ends, np.append(ends[0], ends[:-1])) / low) / np.log(high / low)
    needs = np.array([text_shapes.width(text, TEXT) + 0.15 for text in labels]) / width
    part = min(1.0, float(((1 - needs) / np.maximum(reach, 1e-9)).min()))  # the rest of the panel is for labels
    canvas.log_axis(
        axes, "x", low, low * (high / low) ** (1 / part), most=4 if layered else canvas.MOST_TICKS, upto=high
    )
    axes.set_ylim(heights.sum(), 0)
    tops: np.ndarray = heights.cumsum() - heights
    rows = tops + heights / 2
    right = canvas.moved(axes, axes.transData, 0.1, 0)
    for i, y in enumerate(rows):
        before, after = ends[max(i - 1, 0)], ends[i]
        colour = "black"
        if 0 < i < len(values):
            colour = VERMILLION if broken[i] else _layer(i)["facecolor"] if layered else BLUE
            style: dict[str, Any] = {"facecolor": colour, "edgecolor": colour, "lw": 1, "gid": trace.links[i]}
            if layered and not broken[i] and _layer(i)["hatch"]:
                style |= {"edgecolor": "white", "hatch": _layer(i)["hatch"], "lw": 0}
            axes.add_patch(Rectangle((before, y - 0.08), after - before, 0.16, **style))
        else:
            name, marker = ("bound", "D") if i else ("error", "o")
            axes.add_artist(Line2D([after], [y], marker=marker, color=colour, ms=5, gid=name, clip_on=False))
        ink = VERMILLION if colour == VERMILLION else "black"
        canvas.write(axes, max(before, after), y, labels[i], right, fontsize=TEXT, color=ink, gid="slack")
    falls = np.column_stack([ends[:-1], ends[:-1], np.full(len(values), np.nan)])
    steps = np.column_stack([rows[:-1], rows[1:], np.full(len(values), np.nan)])
    axes.add_artist(Line2D(falls.ravel(), steps.ravel(), color=GREY, lw=0.6, zorder=0, gid="steps"))
    return tops


def _stack(axes: Axes, trace: Trace) -> float:
    """Draw the logarithms of the slacks as a stack, those of broken links downwards; returns the inches of the labels.

    Nothing is drawn where rounding dominates, so only broken links have negative logarithms.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(trace.slacks[1:])
    rounding = ((trace.slacks[1:] > 0) & (trace.slacks[1:] < LESS) & ~trace.broken[1:]).any(axis=0)
    logs = np.where(rounding, np.nan, np.where(trace.broken[1:], logs, np.maximum(logs, 0)))
    logs, ts = np.where(np.isfinite(logs).all(axis=0), logs, np.nan), trace.t
    if len(ts) == 1:  # an area over one point would be empty
        logs, ts = np.repeat(logs, 2, axis=1), ts[0] + np.array([-0.4, 0.4])
    up, down = (np.pad(part.cumsum(axis=0), ((1, 0), (0, 0))) for part in (np.maximum(logs, 0), np.minimum(logs, 0)))
    for i, name in enumerate(trace.links[1:]):
        if (logs[i] > 0).any():
            axes.fill_between(ts, up[i], up[i + 1], gid=name, **_layer(i + 1))
        if trace.broken[i + 1].any():
            axes.fill_between(ts, down[i], down[i + 1], gid=f"broken: {name}", **_wrong())
    total = logs.sum(axis=0)
    axes.add_line(Line2D(ts, total, color="black", lw=1.4, gid="bound / error"))
    top, least = (max(0.0, *part[np.isfinite(part)], 1e-3) for part in (up[-1], -down[-1]))
    axes.set_ylim(-1.05 * least if trace.broken.any() else 0, 1.05 * top)
    axes.axhline(0, color="black", lw=0.8)
    if np.isnan(logs).all():
        style: dict[str, Any] = {"ha": "center", "fontsize": TEXT}
        why = "rounding decides at every t" if rounding.all() else "at no t is every slack a finite number"
        words = text_shapes.wrapped(why, 1.6, TEXT)
        canvas.write(axes, 0.5, 0.5, words, axes.transAxes, **style)
    canvas.over_t(axes, trace.t)
    return canvas.label_left(axes, canvas.linear_axis(axes, "y"))

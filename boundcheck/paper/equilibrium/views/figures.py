"""Draw the figures of `eqm` and `conv-eqm` in the layout of the paper: four panels in a row; † is without projection.

Colours are from `method_style`, as in all other figures, not from the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from boundcheck.views.figures import canvas, legends
from boundcheck.views.figures.canvas import LINE, TOP
from boundcheck.views.figures.method_style import style_of

DASHED = (0, (4, 1.5))
LINES: dict[str, tuple[str, str, Any]] = {
    f"{method}-{kind}": (f"{style_of(method).label}{dagger}", style_of(method).colour, dashes)
    for kind, dagger, dashes in (("projected", "", "-"), ("free", "†", DASHED))
    for method in ("aid-fp", "aid-cgn", "itd")
}
DAGGER = "†: without projection, so Φ need not be a contraction. AID-CGN is the paper's CG, on the normal equations"
MEAN = "line: mean over the seeds; shaded: from the least to the largest"
THICK = {"aid-fp-projected": 3.0, "aid-cgn-projected": 1.9, "itd-projected": 0.9}  # widths, so that all lines are seen
LARGE = {"aid-fp-projected": 7.0, "aid-cgn-projected": 5.0, "itd-projected": 3.4}  # sizes of points, likewise
LOST = "a run left the finite numbers"
WIDTH, HEIGHT, GAP, FOOT = 2.1, 1.9, 0.62, 0.42  # a panel, the space beside and below it, in inches
PANELS = {
    "objective": "training objective $f_t(\\lambda_s)$",
    "accuracy": "test accuracy, %",
    "hypergradient": "$\\|g(\\lambda_s)\\|$",
    "sensitivity": "test accuracy at the end, %",
}


def panels(data: Mapping[str, Any]) -> Figure:
    """Draw the mean and the range over the seeds. A mean ends where the first of the runs ends."""
    figure = Figure(figsize=(WIDTH, HEIGHT))
    axes_in_row = [_over_steps(figure, data, quantity) for quantity in ("objective", "accuracy", "hypergradient")]
    axes_in_row.append(_sensitivity(figure, data))
    left = 0.42
    across = left + len(axes_in_row) * (WIDTH + GAP) - GAP + 0.14
    figure.set_size_inches(across, TOP + HEIGHT + FOOT + 0.24 + 2 * LINE)
    for place, axes in enumerate(axes_in_row):
        canvas.place(axes, left + place * (WIDTH + GAP), TOP, WIDTH, HEIGHT)
    handles = [
        Line2D([], [], color=colour, ls=dashes, lw=THICK.get(name, 1.4), label=label)
        for name, (label, colour, dashes) in LINES.items()
    ]
    if any(ends["diverged"].any() for ends in data["sensitivity"].values()):
        handles.append(Line2D([], [], color="0.3", ls="none", marker="x", ms=4, label=LOST))
    notes = [DAGGER, *([MEAN] if len(data["curves"]["itd-free"]["objective"]) > 1 else [])]
    for height, keys in ((0.14 + LINE, handles), (0.12, [legends.note(text) for text in notes])):
        legends.legend_line(axes_in_row[0], keys, figure.dpi_scale_trans, across / 2, height)
    return figure


def _over_steps(figure: Figure, data: Mapping[str, Any], quantity: str) -> Axes:
    axes = canvas.panel(figure, PANELS[quantity], "step $s$")
    canvas.over_t(axes, data["steps"])
    scale = 100 if quantity == "accuracy" else 1
    curves = {name: scale * data["curves"][name][quantity] for name in LINES}
    _vertical(axes, quantity, np.stack(list(curves.values())))
    for name, values in curves.items():
        has_values = np.isfinite(values).any(axis=0)
        _line(axes, name, data["steps"][has_values], values[:, has_values].T)
        ended = data["sensitivity"][name]["diverged"][list(data["step_sizes"]).index(_size(data, name))].any()
        complete = np.flatnonzero(np.isfinite(values).all(axis=0))
        last = complete[-1:] if ended else complete[:0]
        _cross(axes, name, data["steps"][last], values[:, last].mean(axis=0))
    return axes


def _size(data: Mapping[str, Any], name: str) -> float:
    """Return the step size of the curves of this name."""
    return float(data["shown"][name.rpartition("-")[2]])


def _cross(axes: Axes, name: str, x: np.ndarray, y: np.ndarray) -> None:
    """Mark the point at which a run left the finite numbers."""
    if len(x):
        style: dict[str, Any] = {"ls": "none", "marker": "x", "ms": 5, "color": LINES[name][1], "clip_on": False}
        axes.plot(x, y, gid=f"{name} lost", zorder=4, **style)


def _sensitivity(figure: Figure, data: Mapping[str, Any]) -> Axes:
    if len(data["step_sizes"]) == 1:
        return _one_size(figure, data)
    axes = canvas.panel(figure, PANELS["sensitivity"], r"step size $\zeta$")
    sizes = data["step_sizes"]
    canvas.log_axis(axes, "x", *canvas.extent([sizes], room=1.2, least=12))
    accuracies = {name: 100 * data["sensitivity"][name]["accuracy"] for name in LINES}
    _vertical(axes, "accuracy", np.stack(list(accuracies.values())))
    for name, values in accuracies.items():
        _line(axes, name, sizes, values, marker="o")
        lost = sizes[data["sensitivity"][name]["diverged"].any(axis=1)]
        _cross(axes, name, lost, np.full(len(lost), axes.get_ylim()[0]))
    return axes


def _one_size(figure: Figure, data: Mapping[str, Any]) -> Axes:
    """Draw one place for each method, if there is a single step size."""
    axes = canvas.panel(figure, PANELS["sensitivity"], rf"all with step size $\zeta={data['step_sizes'][0]:g}$")
    accuracies = {name: 100 * data["sensitivity"][name]["accuracy"] for name in LINES}
    axes.set_xlim(-0.6, len(LINES) - 0.4)
    _vertical(axes, "accuracy", np.stack(list(accuracies.values())))
    below = canvas.moved(axes, axes.get_xaxis_transform(), 0, -canvas.TICK)
    for place, (name, values) in enumerate(accuracies.items()):
        label, colour, _ = LINES[name]
        axes.vlines(
            place, np.nanmin(values, initial=100.0), np.nanmax(values, initial=0.0), color=colour, lw=3, alpha=0.3
        )
        style: dict[str, Any] = {"mfc": "white"} if name.endswith("free") else {}
        axes.plot([place], [values.mean()], "o", ms=5, color=colour, gid=name, **style)
        canvas.write(axes, place, 0, label.removeprefix("AID-"), below, ha="center", va="top")
        if data["sensitivity"][name]["diverged"].any():
            _cross(axes, name, np.array([place]), np.array([axes.get_ylim()[0]]))
    return axes


def _line(axes: Axes, name: str, x: np.ndarray, values: np.ndarray, marker: str = "") -> None:
    """Draw the mean of each row of values over x if no value is missing, and the range of the finite values."""
    label, colour, dashes = LINES[name]
    has_values = np.isfinite(values).any(axis=1)
    low, high = np.nanmin(values[has_values], axis=1), np.nanmax(values[has_values], axis=1)
    axes.fill_between(x[has_values], low, high, color=colour, alpha=0.18, lw=0)
    style: dict[str, Any] = {"color": colour, "ls": dashes, "lw": THICK.get(name, 1.2), "label": label, "gid": name}
    axes.plot(x, values.mean(axis=1), marker=marker, ms=LARGE.get(name, 2.2), **style)


def _vertical(axes: Axes, quantity: str, values: np.ndarray) -> None:
    if quantity == "accuracy":
        finite = values[np.isfinite(values)]
        axes.set_ylim(max(0.0, float(finite.min(initial=100)) - 3), min(100.0, float(finite.max(initial=0)) + 3))
        canvas.linear_axis(axes, "y")
    else:
        canvas.log_axis(axes, "y", *canvas.extent([values], room=1.5), most=6)

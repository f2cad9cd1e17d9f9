"""The figures of `eqm` and `conv-eqm` in the layout of the paper: four panels in a row, † without projection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from boundcheck.views.figures import canvas
from boundcheck.views.figures.canvas import BLUE, GREEN, ORANGE, PURPLE, SKY, TOP, VERMILLION

DASHED = (0, (4, 1.5))
# FP red, FP† green, CG† blue and ITD† violet as the paper's text has them
LINES: dict[str, tuple[str, str, Any]] = {
    "aid-fp-projected": ("FP", VERMILLION, "-"),
    "aid-cgn-projected": ("CG", ORANGE, "-"),
    "itd-projected": ("ITD", SKY, "-"),
    "aid-fp-free": ("FP†", GREEN, DASHED),
    "aid-cgn-free": ("CG†", BLUE, DASHED),
    "itd-free": ("ITD†", PURPLE, DASHED),
}
THICK = {"aid-fp-projected": 3.0, "aid-cgn-projected": 1.9, "itd-projected": 0.9}  # so that those below are seen
LARGE = {"aid-fp-projected": 7.0, "aid-cgn-projected": 5.0, "itd-projected": 3.4}  # points, likewise
LOST = "a run left the finite numbers"
WIDTH, HEIGHT, GAP, FOOT = 2.1, 1.9, 0.62, 0.42  # of a panel, inches
PANELS = {
    "objective": "training objective $f_t(\\lambda_s)$",
    "accuracy": "test accuracy, %",
    "hypergradient": "$\\|g(\\lambda_s)\\|$",
    "sensitivity": "test accuracy at the end, %",
}


def panels(data: Mapping[str, Any]) -> Figure:
    """Mean over the seeds, and the range from the least to the largest; a mean ends where one of the runs does."""
    figure = Figure(figsize=(WIDTH, HEIGHT))
    axes_in_row = [_over_steps(figure, data, quantity) for quantity in ("objective", "accuracy", "hypergradient")]
    axes_in_row.append(_sensitivity(figure, data))
    left = 0.42
    across = left + len(axes_in_row) * (WIDTH + GAP) - GAP + 0.14
    figure.set_size_inches(across, TOP + HEIGHT + FOOT + 0.3)
    for place, axes in enumerate(axes_in_row):
        canvas.place(axes, left + place * (WIDTH + GAP), TOP, WIDTH, HEIGHT)
    handles = [
        Line2D([], [], color=colour, ls=dashes, lw=THICK.get(name, 1.4), label=label)
        for name, (label, colour, dashes) in LINES.items()
    ]
    if any(ends["diverged"].any() for ends in data["sensitivity"].values()):
        handles.append(Line2D([], [], color="0.3", ls="none", marker="x", ms=4, label=LOST))
    canvas.legend_line(axes_in_row[0], handles, figure.dpi_scale_trans, across / 2, 0.14)
    return figure


def _over_steps(figure: Figure, data: Mapping[str, Any], quantity: str) -> Axes:
    axes = canvas.panel(figure, PANELS[quantity], "step $s$")
    canvas.over_t(axes, data["steps"])
    scale = 100 if quantity == "accuracy" else 1
    every = {name: scale * data["curves"][name][quantity] for name in LINES}
    _vertical(axes, quantity, np.stack(list(every.values())))
    for name, values in every.items():
        has_values = np.isfinite(values).any(axis=0)
        _line(axes, name, data["steps"][has_values], values[:, has_values].T)
        ended = data["sensitivity"][name]["diverged"][list(data["step_sizes"]).index(_size(data, name))].any()
        complete = np.flatnonzero(np.isfinite(values).all(axis=0))
        last = complete[-1:] if ended else complete[:0]
        _cross(axes, name, data["steps"][last], values[:, last].mean(axis=0))
    return axes


def _size(data: Mapping[str, Any], name: str) -> float:
    """The step size that the curves of this name are drawn at."""
    return float(data["shown"][name.rpartition("-")[2]])


def _cross(axes: Axes, name: str, x: np.ndarray, y: np.ndarray) -> None:
    """Where a run left the finite numbers."""
    if len(x):
        style: dict[str, Any] = {"ls": "none", "marker": "x", "ms": 5, "color": LINES[name][1], "clip_on": False}
        axes.plot(x, y, gid=f"{name} lost", zorder=4, **style)


def _sensitivity(figure: Figure, data: Mapping[str, Any]) -> Axes:
    axes = canvas.panel(figure, PANELS["sensitivity"], r"step size $\zeta$")
    sizes = data["step_sizes"]
    canvas.log_axis(axes, "x", *canvas.extent([sizes], room=1.2, least=12))
    every = {name: 100 * data["sensitivity"][name]["accuracy"] for name in LINES}
    _vertical(axes, "accuracy", np.stack(list(every.values())))
    for name, values in every.items():
        _line(axes, name, sizes, values, marker="o")
        lost = sizes[data["sensitivity"][name]["diverged"].any(axis=1)]
        _cross(axes, name, lost, np.full(len(lost), axes.get_ylim()[0]))
    return axes


def _line(axes: Axes, name: str, x: np.ndarray, values: np.ndarray, marker: str = "") -> None:
    """The mean of each row of values over x where none is missing, and the range of those that are there."""
    label, colour, dashes = LINES[name]
    some = np.isfinite(values).any(axis=1)
    low, high = np.nanmin(values[some], axis=1), np.nanmax(values[some], axis=1)
    axes.fill_between(x[some], low, high, color=colour, alpha=0.18, lw=0)
    style: dict[str, Any] = {"color": colour, "ls": dashes, "lw": THICK.get(name, 1.2), "label": label, "gid": name}
    axes.plot(x, values.mean(axis=1), marker=marker, ms=LARGE.get(name, 2.2), **style)


def _vertical(axes: Axes, quantity: str, values: np.ndarray) -> None:
    if quantity == "accuracy":
        finite = values[np.isfinite(values)]
        axes.set_ylim(max(0.0, float(finite.min(initial=100)) - 3), min(100.0, float(finite.max(initial=0)) + 3))
        canvas.linear_axis(axes, "y")
    else:
        canvas.log_axis(axes, "y", *canvas.extent([values], room=1.5), most=6)

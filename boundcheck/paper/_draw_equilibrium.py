"""The figures of `eqm` and `conv-eqm` in the layout of the paper: four panels in a row, † without projection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from boundcheck import canvas
from boundcheck.canvas import BLUE, GREEN, ORANGE, PURPLE, SKY, TOP, VERMILLION

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
WIDTH, HEIGHT, GAP, FOOT = 2.1, 1.9, 0.62, 0.42  # of a panel, inches
PANELS = {
    "objective": "training objective $f_t(\\lambda_s)$",
    "accuracy": "test accuracy, %",
    "hypergradient": "$\\|g(\\lambda_s)\\|$",
    "sensitivity": "test accuracy at the end, %",
}


def panels(data: Mapping[str, Any]) -> Figure:
    """Mean over the seeds, and the range from the least to the largest."""
    figure = Figure(figsize=(WIDTH, HEIGHT))
    made = [_over_steps(figure, data, what) for what in ("objective", "accuracy", "hypergradient")]
    made.append(_sensitivity(figure, data))
    left = 0.42
    across = left + len(made) * (WIDTH + GAP) - GAP + 0.14
    figure.set_size_inches(across, TOP + HEIGHT + FOOT + 0.3)
    for place, axes in enumerate(made):
        canvas.place(axes, left + place * (WIDTH + GAP), TOP, WIDTH, HEIGHT)
    handles = [
        Line2D([], [], color=colour, ls=dashes, lw=THICK.get(name, 1.4), label=label)
        for name, (label, colour, dashes) in LINES.items()
    ]
    canvas.legend_line(made[0], handles, figure.dpi_scale_trans, across / 2, 0.14)
    return figure


def _over_steps(figure: Figure, data: Mapping[str, Any], what: str) -> Axes:
    axes = canvas.panel(figure, PANELS[what], "step $s$")
    canvas.over_t(axes, data["steps"])
    scale = 100 if what == "accuracy" else 1
    every = {name: scale * data["curves"][name][what] for name in LINES}
    _vertical(axes, what, np.stack(list(every.values())))
    for name, values in every.items():
        seen = np.isfinite(values).any(axis=0)
        _line(axes, name, data["steps"][seen], values[:, seen].T)
    return axes


def _sensitivity(figure: Figure, data: Mapping[str, Any]) -> Axes:
    axes = canvas.panel(figure, PANELS["sensitivity"], r"step size $\zeta$")
    sizes = data["step_sizes"]
    canvas.log_axis(axes, "x", *canvas.extent([sizes], room=1.2, least=12))
    every = {name: 100 * data["sensitivity"][name]["accuracy"] for name in LINES}
    _vertical(axes, "accuracy", np.stack(list(every.values())))
    for name, values in every.items():
        seen = np.isfinite(values).any(axis=1)
        _line(axes, name, sizes[seen], values[seen], marker="o")
    return axes


def _line(axes: Axes, name: str, x: np.ndarray, values: np.ndarray, marker: str = "") -> None:
    """The mean of each row of values over x, and their range; a row may miss some."""
    if not len(x):
        return
    label, colour, dashes = LINES[name]
    low, high = np.nanmin(values, axis=1), np.nanmax(values, axis=1)
    axes.fill_between(x, low, high, color=colour, alpha=0.18, lw=0)
    style: dict[str, Any] = {"color": colour, "ls": dashes, "lw": THICK.get(name, 1.2), "label": label, "gid": name}
    axes.plot(x, canvas.mean(values.T), marker=marker, ms=2.5, **style)


def _vertical(axes: Axes, what: str, values: np.ndarray) -> None:
    if what == "accuracy":
        seen = values[np.isfinite(values)]
        axes.set_ylim(max(0.0, float(seen.min(initial=100)) - 3), min(100.0, float(seen.max(initial=0)) + 3))
        canvas.linear_axis(axes, "y")
    else:
        canvas.log_axis(axes, "y", *canvas.extent([values], room=1.5), most=6)

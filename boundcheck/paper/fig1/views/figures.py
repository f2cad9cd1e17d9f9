"""Draw Figure 1 in the layout of the paper, four panels in a row, and figures of each method with its bounds.

Colours are from `method_style`, as in all other figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from boundcheck.side import Side
from boundcheck.views.figures import canvas, envelope, legends
from boundcheck.views.figures.canvas import LINE, TOP
from boundcheck.views.figures.drawn_bounds import marked
from boundcheck.views.figures.method_style import GREY, bound_style, style_of

LABELS = {"lr": "LR", "krr": "KRR", "br": "BR", "hr": "HR"}
ERROR = r"$\|g(\lambda)-\nabla f(\lambda)\|$"
WIDTH, HEIGHT, GAP, FOOT = 2.35, 1.9, 0.42, 0.42  # a panel, the space beside and below it, in inches
SPREAD = 0.13  # the opacity of a band of one standard deviation
# FP runs on the map of heavy ball if heavy ball is used, as in the authors' code
LINES = {
    "itd": "itd", "fp-momentum": "aid-fp", "aid-cg": "aid-cg", "fp-momentum:10": "aid-fp:10", "aid-cg:10": "aid-cg:10",
}  # fmt: skip
ROWS = {"itd": "ITD", "aid-fp": r"AID-FP $k=t$, on $\Phi$", "aid-cg": "AID-CG $k=t$"}
TEN_STEPS = {"aid-fp:10": r"AID-FP $k=10$, on $\Phi$", "aid-cg:10": "AID-CG $k=10$"}
BOUNDS = {  # the curves of bounds: the role for the marker, and the label
    "paper": ("paper", "the paper's theorem, proved"),
    "certified": ("a priori", "least proved bound, a priori"),
    "afterwards": ("a posteriori", "least proved bound, a posteriori"),
}
FLOORS = {"floor32": ("0.93", "below the floor of float32"), "floor64": ("0.82", "below the floor of float64")}
ERRORS = {"float32": "error in float32", "float64": "error in float64"}
KINDS = (*ERRORS, *BOUNDS, *FLOORS)
Data = Mapping[str, Mapping[str, Any]]


def errors(data: Data) -> Figure:
    """Draw errors in float32, as in the paper: mean, and a band of one standard deviation, cut at the least error."""
    sheet = Sheet(1, len(data))
    for place, (name, of_problem) in enumerate(data.items()):
        methods = of_problem["methods"]
        drawn = {line: methods[line if line in methods else line.replace("fp-momentum", "aid-fp")] for line in LINES}
        low, high = canvas.extent([part["float32"]["mean"] for part in drawn.values()])
        axes = sheet.panel(0, place, LABELS[name], drawn["itd"]["float32"]["mean"], low, high)
        for line, part in drawn.items():
            style = style_of(LINES[line])
            mean, std, least = (part["float32"][statistic] for statistic in ("mean", "std", "min"))
            t = np.arange(1, len(mean) + 1)
            below, above = np.maximum(mean - std, least), mean + std
            axes.fill_between(t, below, above, color=style.colour, alpha=SPREAD, lw=0)
            width = 2.0 if line == "itd" else 1.2  # on BR, FP lies on ITD
            envelope.draw(axes, t, mean, color=style.colour, ls=style.dashes, lw=width, gid=line)
    samples = len(next(iter(data.values()))["kappa"])
    return sheet.arranged([*_method_keys(), _spread_key(samples), envelope.key()])


def _method_keys() -> list[Line2D]:
    keys = []
    for method in LINES.values():
        style = style_of(method)
        label = style.label + ("" if ":" in method or method == "itd" else " $k=t$")
        keys.append(Line2D([], [], color=style.colour, ls=style.dashes, lw=1.6, label=label))
    return keys


def _spread_key(samples: int) -> Patch:
    label = f"shaded: mean ± one standard deviation over {samples} λ, cut below at the least error"
    return Patch(facecolor=(0.4, 0.4, 0.4, 2 * SPREAD), edgecolor="none", label=label)


def with_bounds(data: Data, rows: Mapping[str, str] = ROWS) -> Figure:
    """Draw a row for each method: errors and floors in both precisions, the paper's bound and the least proved bound.

    With k = 10 no floor is drawn, because the error stops far above it.
    """
    sheet = Sheet(len(rows), len(data))
    for place, (name, of_problem) in enumerate(data.items()):
        parts = {method: of_problem["methods"][method] for method in rows}
        floors = {method: floors_of(of_problem, method) for method in rows}
        lowest = np.array([floor for of_one in floors.values() for floor in of_one.values()])
        low, _ = canvas.extent([lowest / 5, *(part["float64"]["mean"] for part in parts.values())])
        _, high = canvas.extent([part[kind] for part in parts.values() for kind in ("paper", "certified")])
        for row, (method, part) in enumerate(parts.items()):
            title = f"{LABELS[name]}: {rows[method]}"
            axes = sheet.panel(row, place, title, part["float64"]["mean"], low, high)
            for kind, floor in floors[method].items():
                axes.axhspan(low / 10, floor, color=FLOORS[kind][0], lw=0, zorder=0)
                axes.axhline(floor, color="0.6", lw=0.7, gid=kind)
            _errors_and_bounds(axes, part, style_of(method).colour)
    return sheet.arranged(_bound_keys(any(floors.values())))


def _errors_and_bounds(axes: Axes, part: Mapping[str, Any], colour: str) -> None:
    t = np.arange(1, len(part["float64"]["mean"]) + 1)
    axes.plot(t, part["float32"]["mean"], color=colour, lw=3, alpha=0.35, gid="float32")
    envelope.draw(axes, t, part["float64"]["mean"], color=colour, lw=1.4, gid="float64")
    for kind, (role, _) in BOUNDS.items():
        finite = np.isfinite(part[kind])
        style: dict[str, Any] = {"color": colour, "lw": 1.0, "ms": 3, "gid": kind, "markevery": marked(finite, role)}
        axes.plot(t[finite], part[kind][finite], **style | bound_style(role, Side.UPPER))


def _bound_keys(floors: bool) -> list[Line2D | Patch]:
    """Return the keys of the legend in grey, because each row has its own colour."""
    wide: dict[str, dict[str, Any]] = {"float32": {"lw": 3, "alpha": 0.35}, "float64": {"lw": 1.4}}
    keys: list[Line2D | Patch] = []
    for kind, label in ERRORS.items():
        keys.append(Line2D([], [], color=GREY, label=label, **wide[kind]))
    for role, label in BOUNDS.values():
        keys.append(Line2D([], [], color=GREY, lw=1.0, ms=3, label=label, **bound_style(role, Side.UPPER)))
    if floors:
        keys += [Patch(facecolor=shade, edgecolor="0.6", label=label) for shade, label in FLOORS.values()]
    return keys


def floors_of(part: Mapping[str, Any], method: str) -> dict[str, float]:
    """Return the mean over λ of the floors of a method in both precisions; nothing if they were not measured."""
    runs = [run["methods"][method] for run in part["end"] if method in run["methods"]]
    if not runs:
        return {}
    return {kind: float(np.mean([run[kind] for run in runs])) for kind in ("floor32", "floor64")}


class Sheet:
    """Panels of the same size in rows and columns, each with its own axes, and one legend below them."""

    def __init__(self, rows: int, columns: int, measure: str = ERROR) -> None:
        self.rows, self.columns, self.measure = rows, columns, measure
        self.figure = Figure(figsize=(WIDTH, HEIGHT))
        self.places: list[tuple[Axes, int, int]] = []
        self.left = 0.0

    def panel(self, row: int, column: int, title: str, over: np.ndarray, low: float, high: float) -> Axes:
        axes = canvas.panel(self.figure, title, "$t$", self.measure if column == 0 else "")
        canvas.over_t(axes, np.arange(1, len(over) + 1))
        ticks = canvas.log_axis(axes, "y", low, high, most=6)
        if column == 0:
            self.left = max(self.left, canvas.label_left(axes, ticks))
        self.places.append((axes, row, column))
        return axes

    def arranged(self, keys: Sequence[Line2D | Patch]) -> Figure:
        across = self.left + self.columns * (WIDTH + GAP) - GAP + 0.14
        lines = legends.key_rows(keys, across - 0.2)
        down = self.rows * (TOP + HEIGHT + FOOT) + LINE * len(lines) + 0.14
        self.figure.set_size_inches(across, down)
        for axes, row, column in self.places:
            canvas.place(axes, self.left + column * (WIDTH + GAP), row * (TOP + HEIGHT + FOOT) + TOP, WIDTH, HEIGHT)
        for i, line in enumerate(lines):
            height = LINE * (len(lines) - i - 0.5) + 0.06
            legends.legend_line(self.places[0][0], line, self.figure.dpi_scale_trans, across / 2, height)
        return self.figure

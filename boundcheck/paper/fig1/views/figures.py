"""Figure 1 in the layout of the paper, four panels in a row; and below one another, each method with its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from boundcheck.views.figures import canvas
from boundcheck.views.figures.canvas import BLUE, GREEN, ORANGE, PURPLE, TOP, VERMILLION

LABELS = {"lr": "LR", "krr": "KRR", "br": "BR", "hr": "HR"}
ERROR = r"$\|g(\lambda)-\nabla f(\lambda)\|$"
WIDTH, HEIGHT, GAP, FOOT = 2.35, 1.9, 0.42, 0.42  # of a panel, inches
# FP is that on the map of heavy ball where there is one, as in the authors' code
LINES = {
    "itd": ("ITD", VERMILLION, "-"),
    "fp-momentum": ("FP $k=t$", BLUE, "-"),
    "aid-cg": ("CG $k=t$", GREEN, "-"),
    "fp-momentum:10": ("FP $k=10$", BLUE, (0, (4, 1.5))),
    "aid-cg:10": ("CG $k=10$", GREEN, (0, (4, 1.5))),
}
ROWS = {"itd": "ITD", "aid-fp": r"FP $k=t$, on $\Phi$", "aid-cg": "CG $k=t$"}
TEN_STEPS = {"aid-fp:10": r"FP $k=10$, on $\Phi$", "aid-cg:10": "CG $k=10$"}
KINDS = {
    "float32": ("error in float32", "0.65", "-"),
    "float64": ("error in float64", "black", "-"),
    "certified": ("least certified bound", BLUE, (0, (4, 1.5))),
    "afterwards": ("the same, from what was seen of the run", GREEN, (0, (1, 1))),
    "paper": ("the paper's theorem", VERMILLION, (0, (5, 1.2, 1, 1.2))),
    "floor32": ("floor of float32", PURPLE, (0, (2, 1))),
    "floor64": ("floor of float64", ORANGE, (0, (2, 1))),
}
Data = Mapping[str, Mapping[str, Any]]


def errors(data: Data) -> Figure:
    """The errors in float32, as in the paper: mean, and a band of one standard deviation, cut at the least error."""
    sheet = Sheet(1, len(data))
    for place, (name, of_problem) in enumerate(data.items()):
        methods = of_problem["methods"]
        drawn = {line: methods[line if line in methods else line.replace("fp-momentum", "aid-fp")] for line in LINES}
        low, high = canvas.extent([part["float32"]["mean"] for part in drawn.values()])
        axes = sheet.panel(0, place, LABELS[name], drawn["itd"]["float32"]["mean"], low, high)
        for line, part in drawn.items():
            label, colour, dashes = LINES[line]
            mean, std, least = (part["float32"][statistic] for statistic in ("mean", "std", "min"))
            t = np.arange(1, len(mean) + 1)
            axes.fill_between(t, np.maximum(mean - std, least), mean + std, color=colour, alpha=0.18, lw=0)
            width = 2.4 if line == "itd" else 1.2  # on BR, FP lies on ITD
            axes.plot(t, mean, color=colour, ls=dashes, lw=width, label=label, gid=line)
    return sheet.arranged(list(LINES.values()))


def with_bounds(data: Data, rows: Mapping[str, str] = ROWS) -> Figure:
    """A row for each method: errors in both precisions, the floors of both, the paper's bound and the least proved.

    With k = 10 the error stops long before a floor, so none is drawn.
    """
    sheet = Sheet(len(rows), len(data))
    for place, (name, of_problem) in enumerate(data.items()):
        parts = {method: of_problem["methods"][method] for method in rows}
        floors = {method: floors_of(of_problem, method) for method in rows}
        lowest = np.array([floor for of_one in floors.values() for floor in of_one.values()])
        low, _ = canvas.extent([lowest, *(part["float64"]["mean"] for part in parts.values())])
        _, high = canvas.extent([part[kind] for part in parts.values() for kind in ("paper", "certified")])
        for row, (method, part) in enumerate(parts.items()):
            title = f"{LABELS[name]}: {rows[method]}"
            axes = sheet.panel(row, place, title, part["float64"]["mean"], low, high)
            t = np.arange(1, len(part["float64"]["mean"]) + 1)
            for kind, (label, colour, dashes) in KINDS.items():
                style: dict[str, Any] = {"color": colour, "ls": dashes, "label": label, "gid": kind}
                style["lw"] = 2.4 if kind == "float32" else 1.1
                if kind.startswith("floor"):
                    if kind in floors[method]:
                        axes.axhline(floors[method][kind], **style)
                    continue
                values = part[kind]["mean"] if kind.startswith("float") else part[kind]
                finite = np.isfinite(values)
                if kind == "afterwards" and finite.sum() < len(t) // 2:
                    style |= {"marker": "o", "ms": 2}
                axes.plot(t[finite], values[finite], **style)
    drawn = [
        kind
        for kind in KINDS
        if not kind.startswith("floor") or any(kind in of_method for of_method in floors.values())
    ]
    return sheet.arranged([KINDS[kind] for kind in drawn])


def floors_of(part: Mapping[str, Any], method: str) -> dict[str, float]:
    """The mean over λ of the floors of a method in both precisions; nothing if they were not measured."""
    each = [run["methods"][method] for run in part["end"] if method in run["methods"]]
    if not each:
        return {}
    return {kind: float(np.mean([run[kind] for run in each])) for kind in ("floor32", "floor64")}


class Sheet:
    """Panels of one size in rows and columns, each with its own axes, and one legend below all."""

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

    def arranged(self, legend: Sequence[tuple[str, Any, Any]]) -> Figure:
        across = self.left + self.columns * (WIDTH + GAP) - GAP + 0.14
        down = self.rows * (TOP + HEIGHT + FOOT) + 0.3
        self.figure.set_size_inches(across, down)
        for axes, row, column in self.places:
            canvas.place(axes, self.left + column * (WIDTH + GAP), row * (TOP + HEIGHT + FOOT) + TOP, WIDTH, HEIGHT)
        handles = [Line2D([], [], color=colour, ls=dashes, lw=1.4, label=label) for label, colour, dashes in legend]
        canvas.legend_line(self.places[0][0], handles, self.figure.dpi_scale_trans, across / 2, 0.14)
        return self.figure

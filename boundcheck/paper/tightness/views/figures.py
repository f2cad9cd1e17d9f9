"""bound/error over t of the paper's theorem, of the best certified bounds of each kind, and of the enclosure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from boundcheck.paper.fig1.views.figures import LABELS, Sheet
from boundcheck.paper.tightness.certified import KINDS, METHODS
from boundcheck.theory.kinds import BoundKind
from boundcheck.views.figures import canvas
from boundcheck.views.figures.canvas import BLUE, GREEN, ORANGE, PURPLE, VERMILLION

LINES = {
    "paper": ("the paper's theorem", VERMILLION, (0, (5, 1.2, 1, 1.2))),
    BoundKind.A_PRIORI: ("best certified, a priori", BLUE, (0, (4, 1.5))),
    BoundKind.FROM_SPECTRUM: (BoundKind.FROM_SPECTRUM.value, ORANGE, (0, (6, 1))),
    BoundKind.A_POSTERIORI: ("best certified, a posteriori", GREEN, (0, (1, 1))),
    BoundKind.ENCLOSURE: (BoundKind.ENCLOSURE.value, PURPLE, "-"),
}


def ratios(problems: Mapping[str, Mapping[str, Any]]) -> Figure:
    """A column for each problem, a row for each method; a line where a bound is ten times the error."""
    sheet = Sheet(len(METHODS), len(problems), "bound / error")
    for column, (name, result) in enumerate(problems.items()):
        every = [ratios_of(method_result, kind) for method_result in result["methods"].values() for kind in LINES]
        low, high = canvas.extent([*every, np.array([1.0, 100.0])], room=1.5)
        for row, method in enumerate(METHODS):
            of_method = result["methods"][method]
            title = f"{LABELS[name.partition('-')[0]]}: {method}"
            axes = sheet.panel(row, column, title, of_method["error"], low, high)
            t = np.arange(1, len(of_method["error"]) + 1)
            axes.axhline(10, color="0.75", lw=0.8)
            for kind, (label, colour, dashes) in LINES.items():
                values = ratios_of(of_method, kind)
                finite = np.isfinite(values)
                style: dict[str, Any] = {"color": colour, "ls": dashes, "lw": 1.4, "label": label, "gid": kind}
                if finite.sum() < len(t) // 2:
                    style |= {"marker": "o", "ms": 2}
                axes.plot(t[finite], values[finite], **style)
    return sheet.arranged(list(LINES.values()))


def ratios_of(method_result: Mapping[str, Any], kind: str) -> np.ndarray:
    ratio: np.ndarray = method_result[kind]["ratio"] if kind in KINDS else method_result[kind]
    return ratio

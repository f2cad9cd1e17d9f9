"""Draw bound/error over t for the paper's theorem, the best certified bounds of each kind, and the enclosure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from boundcheck.paper.fig1.views.figures import HEIGHT, LABELS, Sheet
from boundcheck.paper.tightness.certified import KINDS, METHODS
from boundcheck.side import Side
from boundcheck.theory.kinds import BoundKind
from boundcheck.views.figures import envelope
from boundcheck.views.figures.drawn_bounds import has_gaps, marked
from boundcheck.views.figures.method_style import GREY, bound_style, style_of
from boundcheck.views.figures.tightness_figure import grade_bands, grade_keys, grade_limits

LINES: dict[str, tuple[str, str]] = {  # the role for the marker, and the label
    "paper": ("paper", "the paper's theorem"),
    BoundKind.A_PRIORI: ("a priori", "tightest proved bound, a priori"),
    BoundKind.FROM_SPECTRUM: ("from the spectrum", "from the spectrum"),
    BoundKind.A_POSTERIORI: ("a posteriori", "a posteriori"),
    BoundKind.ENCLOSURE: ("", "enclosure by a better solution"),
}


def ratios(problems: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw a column for each problem and a row for each method, with shades for tight, loose and vacuous bounds."""
    sheet = Sheet(len(METHODS), len(problems), "bound / error")
    for column, (name, result) in enumerate(problems.items()):
        curves = [ratios_of(method_result, kind) for method_result in result["methods"].values() for kind in LINES]
        low, high = grade_limits([*curves, np.array([100.0])], HEIGHT)
        for row, method in enumerate(METHODS):
            of_method, style = result["methods"][method], style_of(method)
            title = f"{LABELS[name.partition('-')[0]]}: {style.label}" + ("" if method == "itd" else " $k=t$")
            axes = sheet.panel(row, column, title, of_method["error"], low, high)
            grade_bands(axes, high)
            t = np.arange(1, len(of_method["error"]) + 1)
            for kind in LINES:
                values = ratios_of(of_method, kind)
                finite = np.isfinite(values)
                plot = axes.plot if has_gaps(values) else partial(envelope.draw, axes)
                plot(t[finite], values[finite], color=style.colour, gid=kind, **_line(kind, finite))
    keys = [Line2D([], [], color=GREY, label=label, **_line(kind)) for kind, (_, label) in LINES.items()]
    return sheet.arranged([*keys, envelope.key(), *grade_keys()])


def _line(kind: str, finite: np.ndarray | None = None) -> dict[str, Any]:
    role = LINES[kind][0]
    if not role:
        return {"lw": 0.9, "ls": "-"}
    marks = {} if finite is None else {"markevery": marked(finite, role)}
    return {"lw": 1.1, "ms": 3} | bound_style(role, Side.UPPER) | marks


def ratios_of(method_result: Mapping[str, Any], kind: str) -> np.ndarray:
    ratio: np.ndarray = method_result[kind]["ratio"] if kind in KINDS else method_result[kind]
    return ratio

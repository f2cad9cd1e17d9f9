"""The largest error/bound found over q, t and k, as tiles with the number on each; darker is closer to 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from boundcheck.views.figures import canvas

if TYPE_CHECKING:
    from boundcheck.worst_case.maps import Map

TILE, LEFT, GAP = 0.42, 0.62, 0.3  # inches
SHADES = LinearSegmentedColormap.from_list("blues", ["#FFFFFF", canvas.SKY, canvas.BLUE])
DARK = 0.75  # letters are white on cells above this ratio


def tightness_map(ratio_map: Map) -> Figure:
    """A panel for each q with k upwards and t across; one panel with q upwards for a bound without k."""
    with_k = ratio_map.ks != (None,)
    panels: list[tuple[str, list[str], Callable[[int, int], float]]] = []
    if with_k:
        for q in ratio_map.qs:
            panels.append((f"q = {q:g}", [str(k) for k in ratio_map.ks], _of_k(ratio_map, q)))
    else:
        panels.append((ratio_map.bound, [f"{q:g}" for q in ratio_map.qs], _of_q(ratio_map)))
    rows, columns = len(panels[0][1]), len(ratio_map.ts)
    width, height = TILE * columns, TILE * rows
    figure = Figure(figsize=(len(panels) * (LEFT + width) + GAP, canvas.TOP + 0.2 + height + canvas.BOTTOM))
    for number, (title, names, ratio) in enumerate(panels):
        axes = canvas.panel(figure, title, "t", "k" if with_k else "q")
        canvas.place(axes, LEFT + number * (LEFT + width), canvas.TOP + 0.2, width, height)
        axes.set(xlim=(0, columns), ylim=(0, rows))
        for i in range(columns):
            for j in range(rows):
                value = ratio(i, j)
                axes.add_artist(Rectangle((i, j), 1, 1, facecolor=_shade(value), edgecolor="white", lw=0.8))
                ink = "white" if DARK < value <= 1 + 1e-9 else "black"
                word = "–" if isnan(value) else f"{value:.3f}"
                canvas.write(axes, i + 0.5, j + 0.5, word, axes.transData, ha="center", color=ink)
        _names(axes, ratio_map.ts, names)
    if with_k:
        middle = figure.axes[0]
        canvas.write(middle, 0, 0.3, ratio_map.bound, canvas.inches(middle, 0, 1), fontsize=canvas.TEXT + 1)
    return figure


def _of_k(ratio_map: Map, q: float) -> Callable[[int, int], float]:
    return lambda i, j: ratio_map.ratio(q, ratio_map.ts[i], ratio_map.ks[j])


def _of_q(ratio_map: Map) -> Callable[[int, int], float]:
    return lambda i, j: ratio_map.ratio(ratio_map.qs[j], ratio_map.ts[i], None)


def _shade(value: float) -> object:
    """Above 1, which refutes the bound, in vermillion; grey where nothing was found."""
    if isnan(value):
        return "0.95"
    return canvas.VERMILLION if value > 1 + 1e-9 else SHADES(max(0.0, value))


def _names(axes: Axes, ts: Sequence[int], names: Sequence[str]) -> None:
    below, left = axes.get_xaxis_transform(), axes.get_yaxis_transform()
    for i, t in enumerate(ts):
        canvas.write(axes, i + 0.5, 0, str(t), canvas.moved(axes, below, 0, -canvas.TICK), ha="center", va="top")
    for j, name in enumerate(names):
        canvas.write(axes, 0, j + 0.5, name, canvas.moved(axes, left, -canvas.TICK, 0), ha="right")
    canvas.label_left(axes, canvas.TICK + 0.2)

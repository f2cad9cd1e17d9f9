"""A map of the largest error/bound found over q, t and k, as tiles with numbers; darker is closer to 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import Transform

from boundcheck.views.figures import canvas, text_shapes

if TYPE_CHECKING:
    from boundcheck.worst_case.maps import Map

TILE, LEFT, GAP = 0.42, 0.62, 0.3  # inches
SHADES = LinearSegmentedColormap.from_list("blues", ["#FFFFFF", canvas.SKY, canvas.BLUE])
WHAT = "largest error/bound that was found"
KEYS = ((0.5, "0.5"), (1.0, "1: attained"), (2.0, "above 1: refuted"), (float("nan"), "nothing found"))
KEY, KEY_WIDTH = 0.22, 3.0  # height and width of the key below the panels, in inches
DARK = 0.75  # letters are white on cells above this ratio


def tightness_map(ratio_map: Map) -> Figure:
    """Draw a panel for each q, with k over t; for a bound without k, one panel with q over t."""
    with_k = ratio_map.ks != (None,)
    panels: list[tuple[str, list[str], Callable[[int, int], float]]] = []
    if with_k:
        for q in ratio_map.qs:
            panels.append((f"q = {q:g}", [str(k) for k in ratio_map.ks], _of_k(ratio_map, q)))
    else:
        panels.append(("", [f"{q:g}" for q in ratio_map.qs], _of_q(ratio_map)))
    rows, columns = len(panels[0][1]), len(ratio_map.ts)
    width, height, top = TILE * columns, TILE * rows, canvas.TOP + (0.2 if with_k else 0)
    across = max(len(panels) * (LEFT + width) + GAP, LEFT + KEY_WIDTH + GAP)
    foot = canvas.BOTTOM + KEY
    words = text_shapes.wrapped(f"{ratio_map.bound}: {WHAT}", across - 0.16, canvas.TEXT + 1)
    top += 1.36 * (canvas.TEXT + 1) / 72 * words.count("\n")
    figure = Figure(figsize=(across, top + height + foot))
    for number, (title, names, ratio) in enumerate(panels):
        axes = canvas.panel(figure, title, "t", "k" if with_k else "q")
        canvas.place(axes, LEFT + number * (LEFT + width), top, width, height)
        axes.set(xlim=(0, columns), ylim=(0, rows))
        for i in range(columns):
            for j in range(rows):
                value = ratio(i, j)
                axes.add_artist(Rectangle((i, j), 1, 1, facecolor=_shade(value), edgecolor="white", lw=0.8))
                ink = "white" if DARK < value <= 1 + 1e-9 else "black"
                word = "–" if isnan(value) else f"{value:.3f}"
                canvas.write(axes, i + 0.5, j + 0.5, word, axes.transData, ha="center", color=ink)
        _names(axes, ratio_map.ts, names)
    first, on_paper = figure.axes[0], figure.dpi_scale_trans
    style: dict[str, Any] = {"fontsize": canvas.TEXT + 1, "va": "top", "gid": "headline"}
    canvas.write(first, 0.08, top + height + foot - 0.07, words, on_paper, **style)
    _key(first, on_paper)
    return figure


def _key(axes: Axes, on_paper: Transform) -> None:
    """Draw the key of the shades."""
    left, height = 0.1, 0.14
    style: dict[str, Any] = {"transform": on_paper, "clip_on": False, "gid": "key", "edgecolor": "0.7", "lw": 0.5}
    for shade, text in KEYS:
        axes.add_artist(Rectangle((left, height - 0.06), 0.12, 0.12, facecolor=_shade(shade), **style))
        canvas.write(axes, left + 0.17, height, text, on_paper, gid="key")
        left += 0.32 + text_shapes.width(text, canvas.SMALL)


def _of_k(ratio_map: Map, q: float) -> Callable[[int, int], float]:
    return lambda i, j: ratio_map.ratio(q, ratio_map.ts[i], ratio_map.ks[j])


def _of_q(ratio_map: Map) -> Callable[[int, int], float]:
    return lambda i, j: ratio_map.ratio(ratio_map.qs[j], ratio_map.ts[i], None)


def _shade(value: float) -> object:
    """Return the colour of a ratio: vermillion above 1, which refutes the bound; grey if nothing was found."""
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

"""A map of values over a grid: tiles with words, a panel for each method, and a key of the shades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from boundcheck.views.figures import canvas, text_shapes

HEIGHT, LEAST_WIDTH, GAP = 0.3, 0.36, 0.28  # size of a tile, and space between panels, in inches
KEY, HEADLINE, LINES = 0.26, canvas.TEXT + 1, 1.36  # a line of the key in inches; the headline in points; line spacing
ACROSS = 7.2  # the largest width of a row of panels in inches
SHADES = LinearSegmentedColormap.from_list("blues", ["#FFFFFF", canvas.SKY, canvas.BLUE])
NOTHING = "0.93"
DARK = 0.62  # letters are white on shades above this


@dataclass(frozen=True)
class Tile:
    """A word on a shade from 0 (white) to 1 (dark), on a colour, or on grey if there is neither."""

    word: str
    shade: float | None = None
    colour: str = ""

    @property
    def face(self) -> Any:
        return self.colour or (NOTHING if self.shade is None else SHADES(min(1.0, max(0.0, self.shade))))

    @property
    def ink(self) -> str:
        return "white" if self.shade is not None and self.shade > DARK and not self.colour else "black"


@dataclass(frozen=True)
class Panel:
    """The tiles of a panel in rows from bottom to top; `title` is empty if there is only one panel."""

    title: str
    tiles: Sequence[Sequence[Tile]]


@dataclass(frozen=True)
class ValueMap:
    """Panels with the same axes, a headline, and the key of the shades."""

    headline: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    panels: Sequence[Panel]
    keys: Sequence[Tile]


def value_map(content: ValueMap) -> Figure:
    """Draw a map.

    Parameters
    ----------
    content : ValueMap
        The panels, axes and key.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.
    """
    words = [tile.word for panel in content.panels for row in panel.tiles for tile in row] + [*content.columns]
    tile = max(LEAST_WIDTH, 0.1 + max(text_shapes.width(word, canvas.SMALL) for word in words))
    names = max(text_shapes.width(name, canvas.SMALL) for name in content.rows)
    left = canvas.TICK + names + (0.32 if content.y else 0.1)
    width, height = tile * len(content.columns), HEIGHT * len(content.rows)
    panel_width = left + width + GAP
    beside = max(1, min(len(content.panels), int(ACROSS // panel_width)))
    down = -(-len(content.panels) // beside)
    key_lines = _key_lines(content.keys, max(beside * panel_width, 3.4))
    across = max(beside * panel_width, 3.4)
    headline = text_shapes.wrapped(content.headline, across - 0.16, HEADLINE)
    top = 0.14 + LINES * HEADLINE / 72 * (1 + headline.count("\n"))
    strip = (canvas.TOP if content.panels[0].title else 0.08) + height + canvas.BOTTOM
    figure = Figure(figsize=(across, top + down * strip + 0.08 + KEY * len(key_lines)))
    for number, panel in enumerate(content.panels):
        axes = canvas.panel(figure, panel.title, content.x, content.y)
        inside = top + (number // beside) * strip + strip - canvas.BOTTOM - height
        canvas.place(axes, left + (number % beside) * panel_width, inside, width, height)
        _draw(axes, panel, content, names)
    first, total = figure.axes[0], float(figure.get_size_inches()[1])
    style: dict[str, Any] = {"fontsize": HEADLINE, "va": "top", "gid": "headline"}
    canvas.write(first, 0.08, total - 0.07, headline, figure.dpi_scale_trans, **style)
    for line, keys in enumerate(reversed(key_lines)):
        _keys(first, keys, 0.14 + KEY * line)
    return figure


def _draw(axes: Axes, panel: Panel, content: ValueMap, names: float) -> None:
    axes.set(xlim=(0, len(content.columns)), ylim=(0, len(content.rows)))
    for j, row in enumerate(panel.tiles):
        for i, tile in enumerate(row):
            axes.add_artist(Rectangle((i, j), 1, 1, facecolor=tile.face, edgecolor="white", lw=0.8))
            canvas.write(axes, i + 0.5, j + 0.5, tile.word, axes.transData, ha="center", color=tile.ink)
    below, left = axes.get_xaxis_transform(), axes.get_yaxis_transform()
    for i, name in enumerate(content.columns):
        canvas.write(axes, i + 0.5, 0, name, canvas.moved(axes, below, 0, -canvas.TICK), ha="center", va="top")
    for j, name in enumerate(content.rows):
        canvas.write(axes, 0, j + 0.5, name, canvas.moved(axes, left, -canvas.TICK, 0), ha="right")
    canvas.label_left(axes, canvas.TICK + names)


def _key_lines(keys: Sequence[Tile], across: float) -> list[list[Tile]]:
    lines: list[list[Tile]] = [[]]
    left = 0.1
    for key in keys:
        width = 0.34 + text_shapes.width(key.word, canvas.SMALL)
        if lines[-1] and left + width > across:
            lines.append([])
            left = 0.1
        lines[-1].append(key)
        left += width
    return lines


def _keys(axes: Axes, keys: Sequence[Tile], height: float) -> None:
    figure: Any = axes.figure
    on_paper, left = figure.dpi_scale_trans, 0.1
    style: dict[str, Any] = {"transform": on_paper, "clip_on": False, "gid": "key", "edgecolor": "0.7", "lw": 0.5}
    for key in keys:
        axes.add_artist(Rectangle((left, height - 0.06), 0.12, 0.12, facecolor=key.face, **style))
        canvas.write(axes, left + 0.17, height, key.word, on_paper, gid="key")
        left += 0.34 + text_shapes.width(key.word, canvas.SMALL)

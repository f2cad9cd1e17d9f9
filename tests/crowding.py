"""Whether the words of a figure can be read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

DIRT = 1.5  # pixels by which boxes of letters may touch


def written(figure: Figure) -> Iterator[Text]:
    """All that can be read."""
    for axes in figure.axes:
        yield from (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts)
        assert axes.get_legend() is None
        assert not (*axes.get_xticklabels(), *axes.get_yticklabels())


def crowded(figure: Figure) -> list[str]:
    """Texts that overlap, are too small, or leave the figure."""
    drawer = FigureCanvasAgg(figure)
    drawer.draw()
    renderer = drawer.get_renderer()
    texts = [text for text in written(figure) if text.get_visible() and text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    whole = figure.bbox
    wrong = [f"small: {text.get_text()}" for text in texts if text.get_fontsize() < 7]
    wrong += [
        f"outside: {words}" for words, box in boxes
        if box.x0 < whole.x0 or box.y0 < whole.y0 or box.x1 > whole.x1 or box.y1 > whole.y1
    ]  # fmt: skip
    for (one, a), (other, b) in combinations(boxes, 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        if width > DIRT and height > DIRT:
            wrong.append(f"overlap: {one!r} and {other!r}")
    return wrong

"""What all figures share: letters, numbers, ticks, and that overlaps are noticed."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from crowding import crowded
from figure_parts import line, texts
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from boundcheck.views.figures import canvas, text_shapes


def test_overlaps_are_found() -> None:
    figure = Figure()
    axes = canvas.panel(figure, "", "")
    canvas.write(axes, 0.5, 0.5, "one", axes.transAxes)
    canvas.write(axes, 0.501, 0.5, "two", axes.transAxes)
    canvas.write(axes, 0.9, 0.2, "a long way out of the figure", axes.transAxes, fontsize=5)
    assert [text.partition(":")[0] for text in crowded(figure)] == ["small", "outside", "overlap"]


def test_letters_are_where_they_are_said_to_be() -> None:
    """The box of a text holds its ink, whatever its alignment; of each letter the width is known before drawing."""
    for ha, va, turned in (("left", "top", 0), ("right", "center", 0), ("center", "baseline", 90)):
        figure = Figure(figsize=(4, 3), dpi=200)
        text = text_shapes.words(400, 300, "Agq ‖∇f‖\n$L_\\Phi$ = 10⁻³", ha=ha, va=va, rotation=turned, fontsize=12)
        figure.add_artist(text)
        drawer = FigureCanvasAgg(figure)
        drawer.draw()
        ys, xs = np.nonzero(np.asarray(drawer.buffer_rgba())[::-1, :, 0] < 128)
        box = text.get_window_extent()
        ink = np.array([[xs.min(), ys.min()], [xs.max() + 1, ys.max() + 1]])
        assert (ink[0] >= box.p0 - 3).all()
        assert (ink[1] <= box.p1 + 3).all()
        assert (ink[1] - ink[0] > 0.8 * (box.p1 - box.p0)).all()
    whole = TextPath((0, 0), "two words", size=72).vertices[:, 0].max()
    assert text_shapes.width("two words", 72) == pytest.approx(whole / 72, rel=0.02)
    lines = text_shapes.wrapped("of some words that need more than a line", 1.0, 8).split("\n")
    assert " ".join(lines) == "of some words that need more than a line"
    assert len(lines) > 1
    assert all(text_shapes.width(one, 8) <= 1.0 for one in lines)


def test_the_users_font_is_used() -> None:
    before = text_shapes.width("illi", 8)
    with mpl.rc_context({"font.family": "monospace"}):
        assert text_shapes.width("illi", 8) > before
    assert text_shapes.width("illi", 8) == before


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.2345, "1.23"), (1359, "1359"), (0.0765, "0.0765"), (8.31e7, "8.31×10⁷"), (3e-10, "3×10⁻¹⁰"), (0, "0"),
     (np.inf, "∞"), (np.nan, "–"), (9999.9, "1×10⁴"), (100.4, "100")],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert canvas.number(value) == text


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [(0.5, 2e3, ["1", "10", "100", "1000"]), (1e-13, 1e3, ["10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³"]),
     (0.3, 30, ["0.5", "1", "2", "5", "10", "20"]), (1.3, 1.6, ["1.3", "1.4", "1.5", "1.6"])],
)  # fmt: skip
def test_ticks(low: float, high: float, labels: list[str]) -> None:
    axes = canvas.panel(Figure(), "", "")
    taken = canvas.log_axis(axes, "y", low, high)
    shown = texts(axes, "y tick")
    assert shown[: len(labels)] == labels
    assert taken > max(text_shapes.width(text, canvas.SMALL) for text in shown)
    np.testing.assert_allclose(line(axes, "y ticks").get_ydata(), [text.get_position()[1] for text in axes.texts])
    assert len(shown) <= 8

"""Text in figures: outlines of words are cached, and a text is drawn as one shape.

Matplotlib looks up, measures and paints every letter again at each drawing, which took nine tenths of the time of a
figure. Here widths are known before anything is drawn, so layouts are computed.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_rgba
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.transforms import Bbox, IdentityTransform

RISE, FALL, PITCH = 0.76, 0.24, 1.36  # height above and below the line, and distance of lines, in font sizes
MIDDLE = 0.27  # the height of the middle of letters above their line
CACHED_WORDS = 2048  # the number of words, and of texts, in the caches
PARTS = {"left": 0.0, "center": 0.5, "right": 1.0}


class Shape(NamedTuple):
    """An outline with its width, for letters of size 1."""

    vertices: np.ndarray
    codes: np.ndarray
    width: float


class Words(Text):
    """A text that is drawn as one shape, or if `outlined` is False, by matplotlib, so that it can be searched."""

    outlined = True

    def _box(self) -> Bbox:
        """Return the box of the text relative to its position, without rotation, for letters of size 1."""
        lines = self.get_text().count("\n")
        width = _text(self.get_text(), self.get_horizontalalignment(), *_fonts()).width
        left = -width * PARTS[self.get_horizontalalignment()]
        top = {
            "top": 0.0,
            "center": (RISE + FALL + lines * PITCH) / 2 if lines else RISE - MIDDLE,
            "baseline": RISE,
            "bottom": RISE + FALL + lines * PITCH,
        }[self.get_verticalalignment()]
        return Bbox([[left, top - RISE - FALL - lines * PITCH], [left + width, top]])

    def _placed(self, points: np.ndarray) -> np.ndarray:
        """Transform points of letters of size 1 to pixels of the figure."""
        figure: Any = self.figure
        angle = math.radians(self.get_rotation())
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        scale = float(self.get_fontsize()) * figure.dpi / 72
        placed: np.ndarray = points @ (scale * turn) + self.get_transform().transform(self.get_unitless_position())
        return placed

    def draw(self, renderer: RendererBase) -> None:
        if not self.outlined:
            super().draw(renderer)
        elif self.get_visible() and self.get_text():
            shape = _text(self.get_text(), self.get_horizontalalignment(), *_fonts())
            points = self._placed(shape.vertices + np.array([0, self._box().y1 - RISE]))
            pen = renderer.new_gc()
            pen.set_linewidth(0)
            path = Path(points.round(2), shape.codes)  # short numbers make short files
            renderer.draw_path(pen, path, IdentityTransform(), to_rgba(self.get_color()))
            pen.restore()
            self.stale = False

    def get_window_extent(self, renderer: RendererBase | None = None, dpi: float | None = None) -> Bbox:
        if not self.outlined or dpi is not None:
            return super().get_window_extent(renderer, dpi)
        corners = self._placed(self._box().corners())
        return Bbox([corners.min(axis=0), corners.max(axis=0)])


def words(x: float, y: float, text: str, **style: Any) -> Words:
    """Return a text as an artist for axes or a figure, without clipping."""
    options: dict[str, Any] = {"transform": IdentityTransform(), "clip_on": False} | style
    return Words(x, y, text, **options)


def width(text: str, size: float) -> float:
    """Return the width of the longest line in inches."""
    return _text(text, "left", *_fonts()).width * size / 72


def wrapped(text: str, inches: float, size: float) -> str:
    """Return the text with a line break before each word that would exceed the width."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and width(longer, size) > inches:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def _fonts() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the user's font family, and the fonts that it and formulas use."""
    settings: Any = mpl.rcParams
    family = tuple(settings["font.family"])
    fonts = (name for kind in family for name in settings.get(f"font.{kind}", ()))
    return family, (*fonts, settings["mathtext.fontset"])


@lru_cache(CACHED_WORDS)
def _text(text: str, align: str, family: tuple[str, ...], fonts: tuple[str, ...]) -> Shape:
    """Return the shape of all lines, with the first on y = 0, aligned at x = 0."""
    space = _word("x x", family, fonts).width - 2 * _word("x", family, fonts).width
    vertices, codes, widest = [np.empty((0, 2))], [np.empty(0, Path.code_type)], 0.0
    for row, line in enumerate(text.split("\n")):
        parts = [_word(word, family, fonts) for word in ([line] if "$" in line else line.split(" "))]
        ends = np.cumsum([part.width + space for part in parts]) - space
        starts = ends - [part.width for part in parts] - PARTS[align] * ends[-1]
        vertices += [part.vertices + np.array([x, -row * PITCH]) for part, x in zip(parts, starts, strict=True)]
        codes += [part.codes for part in parts]
        widest = max(widest, float(ends[-1]))
    return Shape(np.concatenate(vertices), np.concatenate(codes), widest)


@lru_cache(CACHED_WORDS)
def _word(word: str, family: tuple[str, ...], fonts: tuple[str, ...]) -> Shape:  # `fonts` is a key of the cache
    if not word:
        return Shape(np.empty((0, 2)), np.empty(0, Path.code_type), 0.0)
    font, math_mode = FontProperties(family=list(family), size=1), word.count("$") > 1
    points, codes = text_to_path.get_text_path(font, word, ismath=math_mode)
    reach, _, _ = text_to_path.get_text_width_height_descent(word, font, ismath=math_mode)
    vertices = np.reshape(points, (-1, 2)) / text_to_path.FONT_SCALE
    return Shape(vertices, np.array(codes, Path.code_type), reach)

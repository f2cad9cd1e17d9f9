"""Draw state maps in the layout of the paper: for each digit, rows are filters, columns iterations, and black is 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from boundcheck.views.figures import canvas
from boundcheck.views.figures.canvas import SKY, SMALL, TEXT, VERMILLION

ACROSS, CELL, EDGE, TITLE, FOOT = 0.55, 0.3, 0.12, 0.26, 0.24  # inches: labels, a map, margins, words above and below
COLOURS = LinearSegmentedColormap.from_list("signed", [SKY, "black", VERMILLION])
BETWEEN = 1  # pixels between maps
KEY = 0.42  # the height of the colour key, inches


def maps(states: np.ndarray, images: np.ndarray, digits: Sequence[int]) -> Figure:
    """Draw the maps of `states`, which has the shape digits × iterations × filters × side × side."""
    count, times, filters = states.shape[:3]
    side = round(images.shape[1] ** 0.5)
    block = TITLE + filters * CELL + FOOT
    width, height = ACROSS + times * CELL + EDGE, count * block + 0.04 + KEY
    figure = Figure(figsize=(width, height))
    for place, (digit, of_one) in enumerate(zip(digits, states, strict=True)):
        axes = figure.add_axes((0, 0, 1, 1))
        top = place * block + TITLE
        canvas.place(axes, ACROSS, top, times * CELL, filters * CELL)
        limit = float(np.abs(of_one).max()) or 1.0
        axes.imshow(mosaic(of_one), cmap=COLOURS, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        axes.set_axis_off()
        axes.set_gid(f"maps of {digit}")
        corner, foot = canvas.inches(axes, 0, 1), canvas.inches(axes)
        canvas.write(axes, 0, 0.11, f"state maps of a {digit} (largest entry {limit:.2f})", corner, fontsize=TEXT)
        for row in range(filters):
            canvas.write(axes, -0.05, -(row + 0.5) * CELL, str(row + 1), corner, ha="right", fontsize=SMALL)
        for t in range(0, times, 5):
            canvas.write(axes, (t + 0.5) * CELL, -0.09, f"$t={t}$", foot, ha="center", fontsize=SMALL)
        small = figure.add_axes((0, 0, 1, 1))
        canvas.place(small, 0.04, top, 0.3, 0.3)
        small.imshow(images[place].reshape(side, side), cmap="gray", interpolation="nearest")
        small.set_axis_off()
    _key(figure, ACROSS, height)
    return figure


def _key(figure: Figure, left: float, height: float) -> None:
    """Draw the colour key, as fractions of the largest entry of each digit."""
    axes = figure.add_axes((0, 0, 1, 1))
    canvas.place(axes, left + 0.5, height - KEY + 0.1, 2.0, 0.12)
    axes.imshow(np.linspace(-1, 1, 201)[None, :], cmap=COLOURS, aspect="auto", extent=(-1, 1, 0, 1))
    axes.set_axis_off()
    axes.set_gid("colour key")
    below = canvas.inches(axes)
    for x, text in ((0.0, "−largest entry"), (1.0, "0"), (2.0, "largest entry")):
        canvas.write(axes, x, -0.09, text, below, ha="center", fontsize=SMALL, gid="colour key")
    words = "rows are filters, columns are iterations;\nleft of them is the image"
    canvas.write(axes, 2.75, 0.04, words, below, fontsize=SMALL, gid="colour key")


def mosaic(of_one: np.ndarray) -> np.ndarray:
    """Return all maps of a digit as one image, separated by NaN, which is drawn white."""
    times, filters, side, _ = of_one.shape
    step = side + BETWEEN
    picture = np.full((filters * step - BETWEEN, times * step - BETWEEN), np.nan)
    for t in range(times):
        for f in range(filters):
            picture[f * step : f * step + side, t * step : t * step + side] = of_one[t, f]
    return picture

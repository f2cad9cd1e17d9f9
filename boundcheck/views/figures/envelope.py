"""Draw a curve that oscillates from one t to the next as a smooth line in a band, which is easier to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

HALF = 4  # the number of neighbours on each side
VISIBLE = 0.02  # decades; smaller oscillations are drawn as they are
OFTEN = 0.3  # a curve oscillates if it turns at a larger fraction of the neighbours
SHADE = 0.4  # the opacity of the band
LABEL = "the range of what oscillates from one t to the next"


@dataclass(frozen=True, eq=False)
class Envelope:
    """A smooth line through a curve, and the band in which the curve oscillates around it.

    Attributes
    ----------
    low, middle, high : ndarray
        The ends of the band and the line; equal to the curve where it does not oscillate.
    oscillates : ndarray of bool
        Where the curve oscillates.
    """

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray
    oscillates: np.ndarray


def envelope(values: np.ndarray) -> Envelope:
    """Find where a curve oscillates, on a logarithmic axis.

    The line is the geometric mean over neighbouring t, and the band is as wide as the largest departure from it among
    the neighbours.

    Parameters
    ----------
    values : ndarray
        A positive curve over t.

    Returns
    -------
    Envelope
        The line and the band.
    """
    values = np.asarray(values, dtype=float)
    if len(values) <= 2 * HALF or not (np.isfinite(values) & (values > 0)).all():
        return Envelope(values, values, values, np.zeros(len(values), dtype=bool))
    logs = np.log10(values)
    smooth = _smooth(logs)
    width = _around(np.abs(logs - smooth)).max(axis=1)
    turns = np.pad(np.diff(np.sign(np.diff(logs))) != 0, 1, mode="edge")
    sways: np.ndarray = (width > VISIBLE) & (_around(turns).mean(axis=1) > OFTEN)
    middle, width = np.where(sways, smooth, logs), np.where(sways, width, 0.0)
    return Envelope(10 ** (middle - width), 10**middle, 10 ** (middle + width), sways)


def _around(values: np.ndarray) -> np.ndarray:
    """Return a row for each value with its neighbours; the ends are repeated."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(values, HALF, mode="edge"), 2 * HALF + 1)


def _smooth(logs: np.ndarray) -> np.ndarray:
    """Return the mean over the neighbours; at the ends, where neighbours are missing, continued as a straight line."""
    inside = np.lib.stride_tricks.sliding_window_view(logs, 2 * HALF + 1).mean(axis=1)
    slopes = (inside[min(HALF, len(inside) - 1)] - inside[0]) / HALF, (inside[-1] - inside[-HALF - 1 :][0]) / HALF
    before, after = inside[0] - slopes[0] * np.arange(HALF, 0, -1), inside[-1] + slopes[1] * np.arange(1, HALF + 1)
    return np.concatenate([before, inside, after])


def draw(axes: Axes, t: np.ndarray, values: np.ndarray, **style: Any) -> Line2D:
    """Draw a curve like `Axes.plot`, but as a smooth line in a band where it oscillates."""
    outline = envelope(values)
    if outline.oscillates.any():
        axes.fill_between(
            t,
            outline.low,
            outline.high,
            where=list(outline.oscillates),
            color=style["color"],
            alpha=SHADE,
            lw=0,
            gid="range",
        )
    (line,) = axes.plot(t, outline.middle, **style)
    return line


def key() -> Patch:
    """Return the key of the band."""
    return Patch(facecolor=(0.4, 0.4, 0.4, SHADE), edgecolor="none", label=LABEL)

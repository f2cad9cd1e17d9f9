"""Legends outside of the panels: rows or columns of keys. A key is a handle and its label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import Transform

from boundcheck.views.figures import text_shapes
from boundcheck.views.figures.canvas import LINE, SMALL, write

HANDLE = 0.42  # the distance from the left end of a handle to its label in inches
BETWEEN = 0.2  # the space between keys in a line in inches


def note(text: str) -> Line2D:
    """Return a line of a legend with text only."""
    return Line2D([], [], ls="", label=text)


def legend(axes: Axes, handles: Sequence[Line2D | Patch], corner: Transform, room: float, title: str = "") -> int:
    """Draw a legend downwards from a corner, at most `room` inches wide; returns the number of lines."""
    row = 0
    if title:
        write(axes, 0, -LINE / 2, title, corner, gid="title of legend")
        row = 1
    for handle in handles:
        text = text_shapes.wrapped(str(handle.get_label()), room - HANDLE, SMALL)
        lines = 1 + text.count("\n")
        height = -LINE * (row + lines / 2)
        write(axes, HANDLE, height, text, corner, gid="legend")
        key(axes, handle, corner, height)
        row += lines
    return row


def key_rows(handles: Sequence[Line2D | Patch], room: float) -> list[list[Line2D | Patch]]:
    """Split handles into rows that are at most `room` inches wide, with their labels."""
    rows: list[list[Line2D | Patch]] = []
    left = np.inf
    for handle in handles:
        width = key_width(handle)
        if left + width - BETWEEN > room:
            rows.append([])
            left = 0.0
        rows[-1].append(handle)
        left += width
    return rows


def key_width(handle: Line2D | Patch) -> float:
    """Return the inches of a handle with its label and the space after it."""
    return HANDLE + BETWEEN + text_shapes.width(str(handle.get_label()), SMALL)


def keys_in_line(
    axes: Axes, handles: Sequence[Line2D | Patch], corner: Transform, left: float, height: float
) -> None:  # fmt: skip
    """Draw keys in one line, starting from the left."""
    for handle in handles:
        key(axes, handle, corner, height, left)
        write(axes, left + HANDLE, height, str(handle.get_label()), corner, gid="legend")
        left += key_width(handle)


def legend_line(
    axes: Axes, handles: Sequence[Line2D | Patch], corner: Transform, middle: float, height: float
) -> None:  # fmt: skip
    """Draw keys in one line, centred at the middle."""
    left = middle - (sum(key_width(handle) for handle in handles) - BETWEEN) / 2
    keys_in_line(axes, handles, corner, left, height)


def key(axes: Axes, handle: Line2D | Patch, corner: Transform, height: float, left: float = 0) -> None:
    """Draw a handle as plain artists in inches."""
    style: dict[str, Any] = {"transform": corner, "clip_on": False, "gid": "key"}
    if isinstance(handle, Patch):
        style |= {"facecolor": handle.get_facecolor(), "edgecolor": handle.get_edgecolor(), "lw": 0.6}
        axes.add_artist(Rectangle((left, height - 0.035), 0.32, 0.07, hatch=handle.get_hatch(), **style))
    elif handle.get_linestyle() != "None" or handle.get_marker() not in ("", "None"):
        line = Line2D([left, left + 0.16, left + 0.32], [height] * 3, **style)
        line.update_from(handle)
        line.set(markevery=[1], **style)
        axes.add_artist(line)

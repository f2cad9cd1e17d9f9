"""Shared parts of all figures: colours, sizes, axes, and `save`.

Colours are from `method_style`. No information is in colours alone: dashes, markers or words show it too. Sizes are
passed to every artist, so the user's settings of matplotlib are not changed. All positions are in inches, so the layout
needs no trial drawing. Ticks are markers on one line with labels of our own, because the ticks of matplotlib are the
slowest part of a figure.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import TICKDOWN, TICKLEFT
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation, Transform

from boundcheck.atomic_write import write_whole
from boundcheck.errors import InputError
from boundcheck.views.figures import text_shapes
from boundcheck.views.figures.method_style import BLUE as BLUE
from boundcheck.views.figures.method_style import GREEN as GREEN
from boundcheck.views.figures.method_style import GREY as GREY
from boundcheck.views.figures.method_style import ORANGE as ORANGE
from boundcheck.views.figures.method_style import PURPLE as PURPLE
from boundcheck.views.figures.method_style import SKY as SKY
from boundcheck.views.figures.method_style import VERMILLION as VERMILLION
from boundcheck.views.figures.method_style import YELLOW as YELLOW
from boundcheck.views.figures.text_shapes import Words

WIDTH, SMALL, TEXT = 3.3, 7.0, 8.0  # width of a column in inches; sizes of letters in points
TOP, HEIGHT, BOTTOM, LINE = 0.26, 2.02, 0.42, 0.146  # heights of title, panel, labels, and line of a legend in inches
TICK = 0.09  # the distance from an axis to its labels in inches
MOST_TICKS = 7
HUGE = 1e290  # the largest limit of an axis, against overflow
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DPI = 150
METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
SETTINGS: dict[str, Any] = {"svg": {"svg.hashsalt": "boundcheck"}, "pdf": {"pdf.fonttype": 42}}
_saving = threading.Lock()  # matplotlib's settings are global


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure to a file, whole or not at all, and with the same bytes each time.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : str or path
        The file; it ends in .png, .pdf or .svg.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    InputError
        If the file name has another ending, or the file cannot be written.

    Examples
    --------
    >>> import boundcheck as bc
    >>> report = bc.check("scalar", ["itd"], t=5, bounds=["itd"])
    >>> bc.plot.save(bc.plot.errors(report), "errors.svg").name
    'errors.svg'
    """
    target = Path(path)
    suffix = target.suffix.lower().removeprefix(".")
    if suffix not in METADATA:
        raise InputError(
            f"path = {str(path)!r} is not a picture; end it in {', '.join(f'.{kind}' for kind in METADATA)}"
        )
    return write_whole(target, content(figure, suffix))


def content(figure: Figure, suffix: str) -> bytes:
    """Return the content of a "png", "pdf" or "svg" file with the figure; the same bytes each time."""
    contents = io.BytesIO()
    options: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}} if suffix == "png" else {}
    with _saving, mpl.rc_context(SETTINGS[suffix]) if suffix in SETTINGS else nullcontext():
        for text in figure.findobj(Words):
            text.outlined = suffix != "pdf"  # words in a pdf can be searched
        figure.savefig(contents, format=suffix, dpi=DPI, metadata=METADATA[suffix], **options)
    return contents.getvalue()


def number(value: float) -> str:
    """Return a number with three digits, and with a power of ten if it is very large or small."""
    if not np.isfinite(value):
        return "∞" if value == np.inf else "–"
    digits, _, power = f"{value:.2e}".partition("e")
    if value == 0 or -3 <= int(power) < 4:
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits.rstrip('0').rstrip('.')}×10{str(int(power)).translate(RAISED)}"


def mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over the samples (the rows) that are finite; NaN if none is."""
    finite = np.isfinite(values)
    count = np.where(finite.any(axis=0), finite.sum(axis=0), np.nan)
    means: np.ndarray = np.where(finite, values / count, 0.0).sum(axis=0)
    return np.where(np.isnan(count), np.nan, means)


def extent(arrays: Iterable[np.ndarray], room: float = 2.0, least: float = 10.0) -> tuple[float, float]:
    """Return limits of a logarithmic axis for the positive values, at least a factor of `least` apart."""
    values = np.concatenate([np.ravel(array) for array in arrays])
    values = values[np.isfinite(values) & (values > 0)].clip(1 / HUGE, HUGE)
    low, high = (values.min() / room, values.max() * room) if values.size else (0.1, 10.0)
    widen = max(1.0, (least * low / high) ** 0.5)
    return float(low / widen), float(high * widen)


def inches(axes: Axes, x: float = 0, y: float = 0) -> Transform:
    """Return a transform in inches from a corner of the axes: lower left, or upper for y = 1, right for x = 1."""
    of_axes: Any = axes.transAxes
    return axes.figure.dpi_scale_trans + ScaledTranslation(x, y, of_axes)


def moved(axes: Axes, transform: Transform, x: float, y: float) -> Transform:
    """Return the transform, followed by a shift in inches."""
    return transform + ScaledTranslation(x, y, axes.figure.dpi_scale_trans)


def write(axes: Axes, x: float, y: float, text: str, transform: Transform, **style: Any) -> None:
    axes.add_artist(text_shapes.words(x, y, text, transform=transform, **({"fontsize": SMALL, "va": "center"} | style)))


def panel(figure: Figure, title: str, x: str, y: str = "") -> Axes:
    """Add axes with a title and labels, without top, right side and ticks; `place` sets their position."""
    axes = figure.add_axes((0, 0, 1, 1))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(NullLocator())
        axis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)
    axes.patch.set_visible(False)  # the background of the figure is enough
    axes.set_title("", y=1.0)  # with a fixed y, matplotlib does not move the title at each drawing
    style: dict[str, Any] = {"figure": figure, "ha": "center"}
    axes.title = text_shapes.words(0.5, 1, title, fontsize=TEXT + 1, va="baseline", **style)
    axes.title.set_transform(moved(axes, axes.transAxes, 0, 0.08))
    axes.xaxis.label = text_shapes.words(0.5, 0, x, fontsize=TEXT, va="baseline", **style)
    axes.xaxis.set_label_coords(0.5, 0, transform=moved(axes, axes.transAxes, 0, -0.36))
    axes.yaxis.label = text_shapes.words(0, 0.5, y, fontsize=TEXT, va="baseline", rotation=90, **style)
    return axes


def label_left(axes: Axes, ticks: float) -> float:
    """Move the label of the vertical axis left of its ticks; returns the inches from the panel to the label."""
    axes.yaxis.set_label_coords(0, 0.5, transform=moved(axes, axes.transAxes, -ticks - 0.08, 0))
    return ticks + 0.25


def place(axes: Axes, left: float, top: float, width: float, height: float) -> None:
    """Set the position of axes in inches from the upper left corner of the figure, after its size is set."""
    figure: Any = axes.figure
    across, down = figure.get_size_inches()
    axes.set_position((left / across, 1 - (top + height) / down, width / across, height / down))


def log_axis(
    axes: Axes, which: str, low: float, high: float, zero: float | None = None, *, upto: float = np.inf,
    most: int = MOST_TICKS, named: bool = True,
) -> float:  # fmt: skip
    """Draw a logarithmic axis, and return the inches that ticks and labels take.

    Ticks are at some powers of ten, or at 1, 2, 5 or closer on a short axis; at most `most` powers, and none beyond
    `upto`. The label 0 is at `zero`.
    """
    axes.set(**{f"{which}lim": (low, high), f"{which}scale": "log"})  # limits first, so that no other limits are tried
    high = min(high, upto)
    for axis in (axes.xaxis, axes.yaxis):  # a new scale has set locators
        axis.set_major_locator(NullLocator())
        axis.set_minor_locator(NullLocator())
    first, last = int(np.ceil(np.log10(low))), int(np.floor(np.log10(high)))
    step = max(1, -(-(last - first + 1) // most))
    powers = [10.0**n for n in range(step * -(-first // step), last + 1, step)]
    fine = [m * 10.0**n for n in range(first - 1, last + 1) for m in range(1, 10)]
    fine = [x for x in fine if low <= x <= high] if step == 1 else []
    major = powers
    if len(powers) < 3 and step == 1:
        major = [x for x in fine if f"{x:e}"[0] in "125"]
    if len(major) < 3:
        ticks = MaxNLocator(min(5, most), steps=[1, 2, 5, 10]).tick_values(low, high)
        major, fine = [float(x) for x in ticks if low <= x <= high], []
    plain = major is not powers or all(0.01 <= x <= 1000 for x in major)
    labels = {x: number(x) if plain else f"10{str(round(np.log10(x))).translate(RAISED)}" for x in major}
    if which == "x" and major is not powers and any("×" in text for text in labels.values()):
        labels = dict(list(labels.items())[::2])  # every other label, because they are long
    if zero is not None:
        labels[zero] = "0"
    return _ticks(axes, which, labels, fine, named=named)


def over_t(axes: Axes, t: np.ndarray) -> None:
    """Draw the axis of t."""
    alone = t.min() == t.max()
    axes.set_xlim(float(t.min()) - alone, float(t.max()) + (1 if alone else 0.5))
    linear_axis(axes, "x", integer=True)


def linear_axis(axes: Axes, which: str, *, integer: bool = False) -> float:
    """Draw ticks between the current limits of the axis."""
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    ticks = MaxNLocator(5, integer=integer).tick_values(low, high)
    return _ticks(axes, which, {float(x): f"{x:.4g}" for x in ticks if low <= x <= high})


def _ticks(
    axes: Axes, which: str, labels: dict[float, str], fine: Sequence[float] = (), *, named: bool = True
) -> float:
    """Draw ticks and labels along an axis, and return the inches that they take."""
    across = axes.get_xaxis_transform() if which == "x" else axes.get_yaxis_transform()
    style: dict[str, Any] = {"ls": "", "marker": TICKDOWN if which == "x" else TICKLEFT, "color": "black"}
    style |= {"transform": across, "clip_on": False, "gid": f"{which} ticks"}
    for places, length, thick in ((list(labels), 3.5, 0.8), (fine, 2, 0.6)):
        along, nothing = list(places), [0.0] * len(places)
        if along:
            line = Line2D(*((along, nothing) if which == "x" else (nothing, along)), ms=length, mew=thick, **style)
            axes.add_artist(line)
    if not named:
        return TICK
    down, left = moved(axes, across, 0, -TICK), moved(axes, across, -TICK, 0)
    for position, text in labels.items():
        if which == "x":
            write(axes, position, 0, text, down, ha="center", va="top", gid="x tick")
        else:
            write(axes, 0, position, text, left, ha="right", gid="y tick")
    return TICK + max((text_shapes.width(text, SMALL) for text in labels.values()), default=0.0)

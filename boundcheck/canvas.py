"""What all pictures share: colours, sizes, logarithmic axes, legends that cover nothing, and `save`.

Colours are those of Okabe and Ito; what a colour says, a dash pattern, a marker or a word says too. Sizes are passed to
every artist, so the settings of matplotlib stay the user's.
"""

from __future__ import annotations

import io
import os
import textwrap
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from boundcheck.errors import InputError
from boundcheck.writing import write_whole

BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, YELLOW, GREY = "#CC79A7", "#56B4E9", "#F0E442", "#666666"
WIDTH, SMALL, TEXT = 3.3, 7.0, 8.0  # of a column in inches; of letters in points
HEIGHT, LINE = 2.7, 0.15  # of a panel with its title and labels, of a line below it; inches
LETTERS = 42  # of the small ones in the width of a panel, beside the handle of a legend
MOST_TICKS = 7
HUGE = 1e290  # limits of an axis keep away from overflow
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DPI = 160
METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
_saving = threading.Lock()  # matplotlib's settings are global


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write the figure as png, pdf or svg, by the suffix: all of it or nothing, and the same bytes each time."""
    target = Path(path)
    suffix = target.suffix.lower().removeprefix(".")
    if suffix not in METADATA:
        raise InputError(f"path = {str(path)!r} is no picture; end it in {', '.join(f'.{kind}' for kind in METADATA)}")
    contents = io.BytesIO()
    with _saving, mpl.rc_context({"svg.hashsalt": "boundcheck", "pdf.fonttype": 42}):
        _lay_out(figure)
        figure.savefig(contents, format=suffix, dpi=DPI, metadata=METADATA[suffix])
    return write_whole(target, contents.getvalue())


def _lay_out(figure: Figure) -> None:
    """Once for all formats: left to matplotlib, each saving would draw the figure twice."""
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.set_dpi(DPI)
        engine.execute(figure)
        figure.set_layout_engine(None)


def number(value: float) -> str:
    """Three digits, with a power of ten where there would be many zeros."""
    if not np.isfinite(value):
        return "∞" if value == np.inf else "–"
    digits, _, power = f"{value:.2e}".partition("e")
    if value == 0 or -3 <= int(power) < 4:
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits.rstrip('0').rstrip('.')}×10{str(int(power)).translate(RAISED)}"


def wrapped(text: str, letters: int = LETTERS) -> str:
    return textwrap.fill(text, letters, break_long_words=False, break_on_hyphens=False)


def mean(values: np.ndarray) -> np.ndarray:
    """Over the samples (the rows) that say something; NaN where none does."""
    speaks = np.isfinite(values)
    count = np.where(speaks.any(axis=0), speaks.sum(axis=0), np.nan)
    means: np.ndarray = np.where(speaks, values / count, 0.0).sum(axis=0)
    return np.where(np.isnan(count), np.nan, means)


def extent(arrays: Iterable[np.ndarray], room: float = 2.0, least: float = 10.0) -> tuple[float, float]:
    """Limits of a logarithmic axis for the positive values among these, at least a factor of `least` apart."""
    values = np.concatenate([np.ravel(array) for array in arrays])
    values = values[np.isfinite(values) & (values > 0)].clip(1 / HUGE, HUGE)
    low, high = (values.min() / room, values.max() * room) if values.size else (0.1, 10.0)
    widen = max(1.0, (least * low / high) ** 0.5)
    return float(low / widen), float(high * widen)


def log_axis(axes: Axes, which: str, low: float, high: float, zero: float | None = None) -> None:
    """A logarithmic axis with ticks at some powers of ten; at 1, 2, 5 or closer on a short one; 0 at `zero`."""
    axis: Axis = getattr(axes, f"{which}axis")
    axes.set(**{f"{which}lim": (low, high), f"{which}scale": "log"})  # in this order: no other limits are tried
    first, last = int(np.ceil(np.log10(low))), int(np.floor(np.log10(high)))
    step = max(1, -(-(last - first + 1) // MOST_TICKS))
    powers = [10.0**n for n in range(step * -(-first // step), last + 1, step)]
    fine = [m * 10.0**n for n in range(first - 1, last + 1) for m in range(1, 10)]
    fine = [x for x in fine if low <= x <= high] if step == 1 else []
    major = powers
    if len(powers) < 3 and step == 1:
        major = [x for x in fine if f"{x:e}"[0] in "125"]
    if len(major) < 3:
        major, fine = (
            [float(x) for x in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= x <= high],
            [],
        )
    plain = major is not powers or all(0.01 <= x <= 1000 for x in major)
    written = {x: number(x) if plain else f"$10^{{{round(np.log10(x))}}}$" for x in major}
    if zero is not None:
        written[zero] = "0"
    axis.set_major_locator(FixedLocator(list(written)))
    axis.set_major_formatter(FuncFormatter(lambda x, _: written.get(x, "")))
    axis.set_minor_locator(FixedLocator(fine))
    axis.set_minor_formatter(NullFormatter())


def dress(axes: Axes, title: str) -> None:
    """Title, letters and spines; titles and labels have places that matplotlib need not look for at each drawing."""
    axes.set_title(title, fontsize=TEXT + 1, y=1.0)
    inches = axes.figure.dpi_scale_trans
    axes.xaxis.set_label_coords(0.5, 0, transform=axes.transAxes + ScaledTranslation(0, -0.28, inches))
    axes.yaxis.set_label_coords(0, 0.5, transform=axes.transAxes + ScaledTranslation(-0.42, 0, inches))
    axes.tick_params(which="both", labelsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)


def over_t(axes: Axes, t: np.ndarray) -> None:
    """The axis of iterations."""
    alone = t.min() == t.max()
    axes.set_xlim(float(t.min()) - alone, float(t.max()) + (1 if alone else 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("$t$", fontsize=TEXT)


def note(text: str) -> Line2D:
    """A line of a legend that only says something."""
    return Line2D([], [], ls="", label=text)


def fit_height(figure: Figure) -> None:
    """Panels of one height, whatever is written below them."""
    lines: dict[int, int] = {}
    for axes in figure.axes:
        legend, place = axes.get_legend(), axes.get_subplotspec()
        if legend is not None and place is not None:
            count = sum(1 + text.get_text().count("\n") for text in legend.get_texts())
            lines[place.rowspan.start] = max(count, lines.get(place.rowspan.start, 0))
    figure.set_figheight(sum(HEIGHT + LINE * count for count in lines.values()))


def legend_below(axes: Axes, handles: Sequence[Artist]) -> None:
    """Under the label of the horizontal axis, where no curve can be."""
    place = axes.transAxes + ScaledTranslation(0, -0.4, axes.figure.dpi_scale_trans)
    axes.legend(
        handles=handles,
        labels=[wrapped(str(handle.get_label())) for handle in handles],
        loc="upper left",
        bbox_to_anchor=(-0.02, 0),
        bbox_transform=place,
        borderaxespad=0,
        borderpad=0,
        handlelength=3.2,
        frameon=False,
        fontsize=SMALL,
    )

"""Figures of the bias and variance of random methods over t: estimates with confidence intervals, and bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from boundcheck.errors import InputError
from boundcheck.report import stochastic_words as words
from boundcheck.report.stochastic_curve import Measured
from boundcheck.report.stochastic_words import is_undecided
from boundcheck.side import standing
from boundcheck.views.bound_names import bound_name
from boundcheck.views.figures import canvas, legends, text_shapes
from boundcheck.views.figures.canvas import BOTTOM, GREY, HEIGHT, LINE, TEXT, TOP, WIDTH
from boundcheck.views.figures.canvas import save as save
from boundcheck.views.figures.method_style import STANDING_DASHES, STANDING_LABELS, style_of

if TYPE_CHECKING:
    from boundcheck.report.stochastic_curve import MeanEstimate, StochasticBound, StochasticCurve
    from boundcheck.report.stochastic_report import StochasticReport

MOST_BOUNDS = 5  # the most bounds in a panel
GAP, EDGE, RIGHT = 0.3, 0.08, 0.14  # between columns, of words from the edge, right of the panels; inches
FLOOR = "0.87"
LARGEST_WIDE = 10.0  # an axis of t that is longer than this is logarithmic
MARKERS = {quantity: "s" if quantity is Measured.VARIANCE_OF_MEAN else "o" for quantity in Measured}
BOUND_MARKERS = "^Dv<>"
VIOLATED = "X"
LATEX = {
    Measured.MSE: r"$\mathrm{E}\,\|g-\nabla f\|^2$",
    Measured.BIAS: r"$\|\mathrm{E}\,g-\nabla f\|$",
    Measured.VARIANCE_GIVEN_W: r"$\mathrm{E}\,\mathrm{V}[g\,|\,w_t]$",
    Measured.VARIANCE_OF_MEAN: r"$\mathrm{V}[\mathrm{E}[g\,|\,w_t]]$",
    Measured.DISTANCE: r"$\mathrm{E}\,\|w_t-w^*\|^2$",
}
PANELS = (
    ("mean square error", (Measured.MSE,)),
    ("bias", (Measured.BIAS,)),
    ("variances", (Measured.VARIANCE_GIVEN_W, Measured.VARIANCE_OF_MEAN)),
    ("mean square distance to $w^{*}$", (Measured.DISTANCE,)),
)


class DrawnBound(NamedTuple):
    """A bound, and the curve of its method."""

    curve: StochasticCurve
    bound: StochasticBound


def errors(report: StochasticReport) -> Figure:
    """Draw the mean square error, the bias, the two variances and the distance to w* over t, with bounds on each.

    Bars are confidence intervals. A method has the same colour in every figure; the dashes of a bound show whether it
    is proved, probable or estimated. At most five bounds are drawn in a panel, the tightest of each method first.

    Parameters
    ----------
    report : StochasticReport
        The result of `check_stochastic`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.

    Raises
    ------
    InputError
        If the report has no curves.
    """
    if not report.curves:
        raise InputError("the report has no curves to draw; check at least one method")
    headline = f"{words.title(report)}; {report.runs} runs, {words.confidence_of_intervals(report)}"
    sheet = _Sheet(headline)
    drawn: list[DrawnBound] = []
    for title, quantities in PANELS:
        some = chosen(report, quantities)
        drawn += some
        sheet.panel(report, title, quantities, some)
    return sheet.arranged(_keys(report, drawn, sheet.floor))


def chosen(report: StochasticReport, quantities: Sequence[Measured]) -> list[DrawnBound]:
    """Return the bounds of a panel: violated ones, then the tightest of each method and quantity, then the next."""
    ranked = []
    for curve in report.curves.values():
        for quantity in quantities:
            able = [b for b in curve.bounds.values() if b.quantity is quantity and np.isfinite(b.values).any()]
            able.sort(key=lambda b: (list(STANDING_DASHES).index(standing(b.side)), _size(b)))
            ranked += [(not b.verdict.is_violation, rank, DrawnBound(curve, b)) for rank, b in enumerate(able)]
    ranked.sort(key=lambda row: row[:2])
    some: list[DrawnBound] = []
    for _, _, row in ranked:
        if not any(_same(row.bound, other.bound) for other in some):
            some.append(row)
    return some[:MOST_BOUNDS]


def _size(bound: StochasticBound) -> float:
    logs = np.log(bound.values[np.isfinite(bound.values) & (bound.values > 0)])
    return float(logs.mean()) if logs.size else -np.inf


def _same(one: StochasticBound, other: StochasticBound) -> bool:
    """Return whether two bounds are the same, as for the lower level, which methods share."""
    shared = one.quantity is Measured.DISTANCE
    return shared and one.name == other.name and np.array_equal(one.values, other.values, equal_nan=True)


def _estimates(
    report: StochasticReport, quantities: Sequence[Measured]
) -> list[tuple[StochasticCurve, MeanEstimate]]:  # fmt: skip
    """Return the estimates by method; an estimate for a shared lower level is returned once."""
    rows: list[tuple[StochasticCurve, MeanEstimate]] = []
    for quantity in quantities:
        for curve in report.curves.values():
            mean, shared = curve.means.get(quantity.value), quantity is Measured.DISTANCE
            if mean is not None and not (shared and any(np.array_equal(mean.value, m.value) for _, m in rows)):
                rows.append((curve, mean))
    return rows


class _Sheet:
    """Two rows of two panels with a legend below each, under a headline and above shared keys."""

    def __init__(self, headline: str) -> None:
        self.figure = Figure(figsize=(2 * WIDTH, 2 * WIDTH))
        self.headline = text_shapes.wrapped(headline, 2 * (WIDTH - EDGE), TEXT + 1)
        self.rooms: list[float] = []  # of the labels left of each panel, inches
        self.legends: list[list[Any]] = []
        self.floor = False  # whether one is drawn

    def panel(
        self, report: StochasticReport, title: str, quantities: Sequence[Measured], some: Sequence[DrawnBound]
    ) -> None:
        several = len(report.curves) > 1
        label = LATEX[quantities[0]] if len(quantities) == 1 else "variance"
        axes = canvas.panel(self.figure, title, "$t$", label)
        every = np.concatenate([curve.t for curve in report.curves.values()])
        rows = _estimates(report, quantities)
        low, high = limits(rows, some)
        _over_t(axes, every)
        self.rooms.append(canvas.label_left(axes, canvas.log_axis(axes, "y", low, high)))
        handles = []
        for curve, mean in rows:
            self.floor |= _floor(axes, curve, mean.quantity, low)
            name = several and len(rows) > 1
            handles.append(_estimate(axes, curve, mean, low, high, named=name, dashed=_has_two_k(report, curve)))
        for place, row in enumerate(some):
            shared = quantities == (Measured.DISTANCE,) and len(rows) == 1
            handles.append(_bound(axes, row, place, named=several and not shared))
        handles += [legends.note(text) for text in _notes(report, quantities, some)]
        self.legends.append(handles)

    def arranged(self, keys: Sequence[Line2D | Patch]) -> Figure:
        """Set the size of the figure, arrange its panels and return it."""
        left, middle = max(self.rooms[0::2]), max(self.rooms[1::2])
        width = (2 * WIDTH - left - middle - GAP / 2 - RIGHT) / 2
        lefts = (left, left + width + GAP / 2 + middle)
        lines = [0, 0]
        for place, (axes, handles) in enumerate(zip(self.figure.axes, self.legends, strict=True)):
            corner = canvas.moved(axes, canvas.inches(axes), -0.06, -BOTTOM)
            lines[place // 2] = max(lines[place // 2], legends.legend(axes, handles, corner, width + 0.06))
        head = 0.12 + (TEXT + 1) / 72 * 1.36 * (1 + self.headline.count("\n"))
        heights = [TOP + HEIGHT + BOTTOM + LINE * some + 0.06 for some in lines]
        of_keys = legends.key_rows(keys, 2 * (WIDTH - EDGE))
        total = head + sum(heights) + LINE * len(of_keys) + 0.1
        self.figure.set_figheight(total)
        for place, axes in enumerate(self.figure.axes):
            row, column = divmod(place, 2)
            canvas.place(axes, lefts[column], head + sum(heights[:row]) + TOP, width, HEIGHT)
        first, on_paper = self.figure.axes[0], self.figure.dpi_scale_trans
        style: dict[str, Any] = {"fontsize": TEXT + 1, "va": "top", "gid": "headline"}
        canvas.write(first, EDGE, total - EDGE, self.headline, on_paper, **style)
        for i, row_of_keys in enumerate(of_keys):
            legends.keys_in_line(first, row_of_keys, on_paper, EDGE, LINE * (len(of_keys) - i - 0.5) + 0.05)
        return self.figure


def _has_two_k(report: StochasticReport, curve: StochasticCurve) -> bool:
    """Whether another method of the report differs from this one in k only."""
    names = [method.partition(":")[0] for method in report.curves]
    return names.count(curve.method.partition(":")[0]) > 1


def limits(rows: Sequence[tuple[StochasticCurve, MeanEstimate]], some: Sequence[DrawnBound]) -> tuple[float, float]:
    """Return limits for estimates, upper ends of intervals, bounds, and lower ends that are not far below."""
    values = [mean.value for _, mean in rows]
    low, _ = canvas.extent(values)
    ends = [np.where(mean.lower > low / 10, mean.lower, np.nan) for _, mean in rows]
    return canvas.extent([*values, *ends, *(mean.upper for _, mean in rows), *(row.bound.values for row in some)])


def _over_t(axes: Axes, t: np.ndarray) -> None:
    if t.max() > LARGEST_WIDE * t.min():
        canvas.log_axis(axes, "x", float(t.min()) / 1.15, float(t.max()) * 1.15)
    else:
        canvas.over_t(axes, t)


def _floor(axes: Axes, curve: StochasticCurve, quantity: Measured, low: float) -> bool:
    """Shade the rounding floor, which is a root mean square error; returns whether it is in the panel."""
    if quantity is Measured.DISTANCE:
        return False
    floor = curve.floor if quantity is Measured.BIAS else curve.floor**2
    if not (floor > low).any():
        return False
    axes.fill_between(
        curve.t, low / 10, np.where(np.isfinite(floor), floor, canvas.HUGE), color=FLOOR, lw=0, gid="floor"
    )
    return True


def _estimate(
    axes: Axes, curve: StochasticCurve, mean: MeanEstimate, low: float, high: float, *, named: bool, dashed: bool
) -> Line2D:  # fmt: skip
    """Draw estimates, and intervals as bars; a bar that ends outside of the panel is cut there.

    Bounds are dashed, so estimates are solid unless `dashed`, which tells apart the estimates of two k.
    """
    colour, marker, finite = style_of(curve.method).colour, MARKERS[mean.quantity], np.isfinite(mean.value)
    ends = [np.where(np.isfinite(x), x, other) for x, other in ((mean.lower, 0.0), (mean.upper, canvas.HUGE))]
    below, above = (np.clip(x, low / 2, high * 2) for x in ends)
    bars = LineCollection(
        [[(t, a), (t, b)] for t, a, b in np.stack([curve.t, below, above], axis=1)[finite]], colors=colour,
        linewidths=2.6,
        alpha=0.4,
        gid=f"intervals {curve.method} {mean.quantity.value}",
    )  # fmt: skip
    axes.add_collection(bars, autolim=False)
    value = np.where(finite & (mean.value > 0), mean.value, np.nan)
    label = (
        f"{mean.quantity.words} {LATEX[mean.quantity]}" if mean.quantity in PANELS[2][1] else "estimate and interval"
    )
    label = f"{style_of(curve.method).label}: {label}" if named else label
    style: dict[str, Any] = {"lw": 1.5, "ms": 3.2, "marker": marker, "color": colour, "label": label}
    style["ls"] = style_of(curve.method).dashes if dashed else "-"
    if not mean.proved:
        style |= {"mfc": "white"}
    (line,) = axes.plot(curve.t, value, gid=f"estimate {curve.method} {mean.quantity.value}", **style)
    return line


def _bound(axes: Axes, row: DrawnBound, place: int, *, named: bool) -> Line2D:
    curve, bound = row
    known, speaks = standing(bound.side), np.isfinite(bound.values)
    label = bound_name(bound.name, bound.reference)
    if bound.verdict.is_violation or is_undecided(bound):
        label += f", {bound.verdict.value if bound.verdict.is_violation else 'undecided'}"
    style: dict[str, Any] = {"lw": 1.2, "ms": 3.6, "ls": STANDING_DASHES[known], "color": style_of(curve.method).colour}
    style["marker"] = VIOLATED if bound.verdict.is_violation else BOUND_MARKERS[place % len(BOUND_MARKERS)]
    style |= {"mfc": "white"} if known == "estimated" else {}
    label = f"{style_of(curve.method).label}: {label}" if named else label
    (line,) = axes.plot(curve.t[speaks], bound.values[speaks], gid=bound.name, label=label, **style)
    return line


def _notes(report: StochasticReport, quantities: Sequence[Measured], some: Sequence[DrawnBound]) -> Iterator[str]:
    names = {row.bound.name for row in some}
    others = {
        b.name: None
        for curve in report.curves.values()
        for b in curve.bounds.values()
        if b.quantity in quantities and np.isfinite(b.values).any() and b.name not in names
    }
    if others:
        yield f"not drawn: {', '.join(others)}"
    if not some:
        yield "no bound applies"


def _keys(report: StochasticReport, drawn: Sequence[DrawnBound], floor: bool) -> list[Line2D | Patch]:
    """Return the keys for all panels: intervals, how bounds are known, and the floor."""
    means = [mean for curve in report.curves.values() for mean in curve.means.values()]
    keys: list[Line2D | Patch] = []
    if any(mean.proved for mean in means):
        keys.append(
            Line2D([], [], color=GREY, marker="o", ms=3.6, lw=1.5, label="estimate; its interval, the bar, is proved")
        )
    if not all(mean.proved for mean in means):
        label = "estimate; its interval is approximate (Student's t)"
        keys.append(Line2D([], [], color=GREY, marker="o", mfc="white", ms=3.2, lw=1.5, label=label))
    known = {standing(row.bound.side) for row in drawn}
    keys += [
        Line2D([], [], color=GREY, lw=1.2, ls=dashes, label=STANDING_LABELS[word])
        for word, dashes in STANDING_DASHES.items()
        if word in known
    ]
    if floor:
        keys.append(Patch(color=FLOOR, label="at or below the rounding floor: says nothing"))
    return keys

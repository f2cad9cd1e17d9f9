"""A figure of the error of every method over t, with its bounds and the rounding floor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from boundcheck.views.figures import canvas, drawn_bounds, legends
from boundcheck.views.figures.drawn_bounds import attained, chosen, label_of, left_out, roles, why_none
from boundcheck.views.figures.method_sheet import MethodSheet, curves_of, standing_keys
from boundcheck.views.figures.method_style import style_of

if TYPE_CHECKING:
    from boundcheck.report.method_curve import Curve
    from boundcheck.report.report import Report

ERROR = r"$\|g(\lambda)-\nabla f(\lambda)\|$"
WHAT = "the error of each method and bounds on it"
FLOOR = "0.87"
REACH = 0.6  # the axis grows by at most this fraction to show the floor


def errors(report: Report) -> Figure:
    """Draw the error of every method over t, the rounding floor, and at most five bounds for each method.

    For several λ it shows the mean with a band of one standard deviation, cut below at the least error. A method has
    the same colour in every figure. The dashes of a bound show whether it is proved, probable or estimated.

    Parameters
    ----------
    report : Report
        The result of `check`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `save` writes it.

    Examples
    --------
    >>> import boundcheck as bc
    >>> report = bc.check("scalar", ["itd"], t=5, bounds=["itd"])
    >>> bc.plot.errors(report).axes[0].get_title()
    'ITD'
    """
    curves = curves_of(report)
    low, high = limits(curves)
    sheet = MethodSheet(report, WHAT, ERROR, low, high)
    for axes, curve in sheet.panels:
        handles = _error(axes, curve, low, high) + _bounds(axes, curve)
        if not np.isfinite(curve.errors).any():
            sheet.sentence(axes, "no error is a finite number: the run diverges")
        sheet.legend(axes, [*handles, *(legends.note(text) for text in _notes(curve, low))])
    return sheet.arranged(_keys(curves, low, high))


def _keys(curves: list[Curve], low: float, high: float) -> list[Any]:
    """Return the keys for all panels: how bounds are known, lines with gaps, and the floor."""
    keys: list[Any] = list(standing_keys(curves))
    if any(drawn_bounds.has_gaps(canvas.mean(bound.values)) for curve in curves for bound in chosen(curve)):
        keys.append(drawn_bounds.gaps_key())
    floors = [_floor(curve, high) for curve in curves]
    if any((floor > low).any() for floor in floors):
        keys.append(Patch(color=FLOOR, label="at or below the rounding floor: says nothing"))
    else:
        keys.append(legends.note(f"the rounding floor, {canvas.number(float(np.max(floors)))}, is below this picture"))
    return keys


def _floor(curve: Curve, otherwise: float) -> np.ndarray:
    floor: np.ndarray = np.where(np.isfinite(curve.floor), curve.floor, otherwise).mean(axis=0)
    return floor


def _error(axes: Axes, curve: Curve, low: float, high: float) -> list[Any]:
    """Draw the error, in full colour above the floor and faint below it; returns its entry of the legend."""
    colour, samples = style_of(curve.method).colour, len(curve.errors)
    finite = np.where(np.isfinite(curve.errors).all(axis=0), curve.errors, np.nan)
    error, floor = finite.mean(axis=0), _floor(curve, high)
    above = np.where(error > floor, error, np.nan)
    axes.fill_between(curve.t, low / 10, floor, color=FLOOR, lw=0, gid="floor")
    label = "error"
    if samples > 1:
        label += f", mean ± std over {samples} λ"
        below = np.maximum(error - finite.std(axis=0), finite.min(axis=0)).clip(min=low / 10)
        axes.fill_between(curve.t, below, error + finite.std(axis=0), color=colour, alpha=0.2, lw=0)
    label += _relative(curve, bool(np.isnan(above[-1])))
    label += "" if np.isfinite(above).any() or not np.isfinite(error).any() else ", nowhere above the floor"
    marker = "o" if len(curve.t) == 1 else ""  # a point is not a line
    axes.plot(curve.t, error, color=colour, lw=1.6, alpha=0.35, marker=marker, ms=4, gid="faint")
    return axes.plot(curve.t, above, color=colour, lw=2.2, marker=marker, ms=4, label=label)


def _relative(curve: Curve, at_floor: bool) -> str:
    """Return the error at the last t relative to ‖∇f‖ as text, if it is known and above the floor."""
    last = curve.last
    if last is None or len(curve.errors) > 1 or at_floor or not np.isfinite(last.relative_error):
        return ""
    part = last.relative_error
    size = f"{canvas.number(100 * part)}% of" if part < 10 else f"{canvas.number(part)} ×"
    return f", {'at most' if last.proved else 'about'} {size} $\\|\\nabla f\\|$ at $t={int(curve.t[-1])}$"


def _bounds(axes: Axes, curve: Curve) -> list[Line2D]:
    """Draw the bounds; the legend starts with the loosest, as in the figure."""
    colour, lines = style_of(curve.method).colour, []
    for role, bound in sorted(roles(curve).items(), key=lambda item: -drawn_bounds.looseness(item[1])):
        lines.append(drawn_bounds.draw(axes, curve.t, canvas.mean(bound.values), role, bound, color=colour))
        lines[-1].set_label(label_of(bound) + attained(bound))
    return lines


def _notes(curve: Curve, low: float) -> list[str]:
    notes, error = [], canvas.mean(curve.errors)
    lost, under = ~np.isfinite(curve.errors).all(axis=0), error < low
    if lost.any() and not lost.all():
        notes.append(f"the error is not a finite number from t = {int(curve.t[lost.argmax()])} on")
    if under[-1]:
        first = len(under) - int((~under[::-1]).argmax()) if not under.all() else 0
        notes.append(f"the error is below this picture from t = {int(curve.t[first])} on")
    return [*notes, *filter(None, [left_out(curve) if chosen(curve) else why_none(curve)])]


def limits(curves: list[Curve]) -> tuple[float, float]:
    """Return limits from the least error, or a decade below the floor, to the largest error or bound.

    If the axis would have to grow by more than `REACH` to show the floor, a note gives the floor.
    """
    low, high = canvas.extent([curve.errors for curve in curves])
    floor, _ = canvas.extent([curve.floor for curve in curves], room=10)
    _, top = canvas.extent([np.array([high / 2]), *(bound.values for curve in curves for bound in chosen(curve))])
    high = max(high, top)
    if floor < high / 10:
        near = np.log(low / floor) <= REACH * np.log(high / low)
        low = floor if near or low < floor else low
    return low, high

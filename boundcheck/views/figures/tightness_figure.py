"""A figure of bound/error over t for every method, with grades of tightness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from boundcheck.report.summary import LOOSE, TIGHT, Grade
from boundcheck.views.figures import canvas, drawn_bounds, legends
from boundcheck.views.figures.drawn_bounds import label_of, left_out, roles, why_none
from boundcheck.views.figures.method_sheet import MethodSheet, curves_of, standing_keys
from boundcheck.views.figures.method_style import style_of

if TYPE_CHECKING:
    from boundcheck.report.method_curve import BoundCurve, Curve
    from boundcheck.report.report import Report

WHAT = "how many times the error each bound is"
GRADES = {  # the largest bound/error of each, and its shade
    f"{Grade.TIGHT.value} (within 10)": (TIGHT, "1"),
    f"{Grade.LOOSE.value} (within 10³)": (LOOSE, "0.95"),
    Grade.VACUOUS.value: (np.inf, "0.89"),
}
EQUAL = "bound = error"
LABEL_ROOM = 0.16  # the height of a label of small letters in inches


def tightness(report: Report) -> Figure:
    """Draw bound/error over t for the bounds that `errors` draws, with the best and the worst value of each.

    Nothing is drawn where rounding dominates. For several λ it shows the geometric mean, faint where not all errors are
    above the floor. The grades are: tight within a factor of 10, loose within 10³, vacuous beyond.

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
    >>> bc.plot.tightness(report).axes[0].get_ylabel()
    'bound / error'
    """
    curves = curves_of(report)
    ratios = [bound.tightness for curve in curves for bound in drawn_bounds.chosen(curve)]
    low, high = grade_limits(ratios)
    sheet = MethodSheet(report, WHAT, "bound / error", low, high)
    for axes, curve in sheet.panels:
        grade_bands(axes, high)
        handles = _ratios(axes, curve)
        if not roles(curve):
            sheet.sentence(axes, why_none(curve))
        elif all(bound.best is None for bound in roles(curve).values()):
            sheet.sentence(axes, "every error is at the rounding floor, so there is nothing to compare")
        sheet.legend(axes, handles + [legends.note(text) for text in filter(None, [left_out(curve)])])
    gaps = any(drawn_bounds.has_gaps(canvas.mean(bound.values)) for curve in curves for bound in roles(curve).values())
    return sheet.arranged([*grade_keys(), *standing_keys(curves), *([drawn_bounds.gaps_key()] if gaps else [])])


def grade_limits(ratios: Sequence[np.ndarray], height: float = canvas.HEIGHT) -> tuple[float, float]:
    """Return limits of an axis for ratios bound/error, with room for a label below 1 in a panel of this height."""
    low, high = canvas.extent([*ratios, np.array([1.0, 10.0])])
    part = LABEL_ROOM / height
    return min(low, float(high ** (-part / (1 - part)))), high


def grade_bands(axes: Axes, high: float) -> None:
    """Draw a line with a label at 1 and a shade for each grade, on an axis up to `high`."""
    below = 1.0
    for name, (above, shade) in GRADES.items():
        if min(above, high) > below:
            axes.axhspan(below, min(above, high), color=shade, lw=0, zorder=0, gid=f"grade {name}")
        below = above
    axes.axhline(1, color="black", lw=0.8, gid="one")
    below_line = canvas.moved(axes, axes.get_yaxis_transform(), -0.03, -0.065)
    canvas.write(axes, 1, 1, EQUAL, below_line, ha="right", gid="equal")


def grade_keys() -> list[Patch]:
    """Return the keys of the shades."""
    return [Patch(facecolor=shade, edgecolor="0.7", label=name) for name, (_, shade) in GRADES.items()]


def _ratios(axes: Axes, curve: Curve) -> list[Any]:
    """Draw the bounds of a method; the legend starts with the loosest."""
    lines = []
    for role, bound in sorted(roles(curve).items(), key=lambda item: -drawn_bounds.looseness(item[1])):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.exp(canvas.mean(np.log(bound.tightness)))
        of_all = np.where(np.isnan(bound.tightness).any(axis=0), np.nan, ratio)
        style: dict[str, Any] = {"color": style_of(curve.method).colour}
        if np.isnan(of_all[np.isfinite(ratio)]).any():
            faint = {"alpha": 0.35, "gid": "faint", "marker": ""}
            drawn_bounds.draw(axes, curve.t, ratio, role, bound, **style | faint)
        lines.append(drawn_bounds.draw(axes, curve.t, of_all, role, bound, **style))
        lines[-1].set_label(f"{label_of(bound)}: {_span(bound)}")
    return lines


def _span(bound: BoundCurve) -> str:
    if bound.best is None or bound.worst is None:
        return "every error is at the floor"
    return f"×{canvas.number(bound.best)} to ×{canvas.number(bound.worst)}"

"""Choose the bounds of a panel, their labels, and how they are drawn.

A panel shows at most five bounds, one for each role in this order of importance. A role is empty if no bound fits, and
a bound has only the first role that it fits.

1. violated: the tightest of the violated bounds.
2. paper: the bound with the name of the method, which is the paper's theorem on the method.
3. a priori: the tightest bound that is known before a run.
4. a posteriori: the tightest bound that is computed from a run.
5. from the spectrum: the tightest bound from the eigenvalues of ∂₁Φ.
6. paper ball: the tightest a priori bound with constants on the paper's ball.

For "tightest", proved bounds come before probable ones, and these before estimated ones; then the mean of
log(bound/error) decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from boundcheck.ball import BallKind
from boundcheck.side import standing
from boundcheck.theory.kinds import BoundKind
from boundcheck.views.bound_names import bound_name
from boundcheck.views.figures.method_style import GREY, ROLE_MARKERS, STANDING_DASHES, bound_style
from boundcheck.views.figures.plain_maths import maths

if TYPE_CHECKING:
    from boundcheck.report.method_curve import BoundCurve, Curve

MOST_BOUNDS = 5  # the most bounds in a panel
NAMESAKES = {"exact": "ghadimi-wang"}  # the paper's bound on a method, if its name differs from the method
MANY = 30  # with more computed values than this, markers would hide the line
SPARSE = 5  # the number of markers on a line without gaps


def roles(curve: Curve) -> dict[str, BoundCurve]:
    """Return the bounds that a panel shows, by role, as in the list above."""
    able = sorted((b for b in curve.applicable.values() if np.isfinite(b.values).any()), key=_usefulness)
    method = curve.method.partition(":")[0]
    before = [b for b in able if b.kind is BoundKind.A_PRIORI]
    fitting = {
        "violated": [b for b in able if b.verdict.is_violation],
        "paper": [b for b in able if b.name == NAMESAKES.get(method, method)],
        "a priori": before,
        "a posteriori": [b for b in able if b.kind is BoundKind.A_POSTERIORI],
        "from the spectrum": [b for b in able if b.kind is BoundKind.FROM_SPECTRUM],
        "paper ball": [b for b in before if b.ball == BallKind.PAPER],
    }
    by_role: dict[str, BoundCurve] = {}
    for role, candidates in fitting.items():
        # only the first candidate: if it already has a role, this role stays empty
        names = {b.name for b in by_role.values()}
        if candidates and len(by_role) < MOST_BOUNDS and candidates[0].name not in names:
            by_role[role] = candidates[0]
    return by_role


def chosen(curve: Curve) -> list[BoundCurve]:
    """Return the bounds that `errors` and `tightness` draw for a method.

    They are the bound with the name of the method, the tightest a priori bound, the tightest a posteriori bound, the
    tightest bound from the spectrum, and the tightest bound on the paper's ball. A violated bound comes first.

    Parameters
    ----------
    curve : Curve
        The curve of a method of a report.

    Returns
    -------
    list of BoundCurve
        At most five bounds.

    Examples
    --------
    >>> import boundcheck as bc
    >>> report = bc.check("scalar", ["itd"], t=5, bounds=["itd"])
    >>> [bound.name for bound in bc.plot.chosen(report.curve("itd"))]
    ['itd']
    """
    return list(roles(curve).values())


def _usefulness(bound: BoundCurve) -> tuple[int, float]:
    return list(STANDING_DASHES).index(standing(bound.side)), looseness(bound)


def looseness(bound: BoundCurve) -> float:
    """Return the mean of log(bound/error), or of log(bound) if no error is above the floor."""
    values = bound.values if bound.best is None else bound.tightness
    logs = np.log(values[np.isfinite(values) & (values > 0)])
    return float(logs.mean()) if logs.size else -np.inf


def label_of(bound: BoundCurve) -> str:
    """Return the name of a bound with the number of its theorem, and the verdict if it is violated."""
    return bound_name(bound.name, bound.reference) + (f", {bound.verdict.value}" if bound.verdict.is_violation else "")


def attained(bound: BoundCurve) -> str:
    """Return a note for the legend if the error is equal to the bound, so that its line hides the bound."""
    best, worst = bound.best, bound.worst
    covered = best is not None and worst is not None and 0.98 < best <= worst < 1.02
    return ", equal to the error" if covered else ""


def left_out(curve: Curve) -> str:
    """Return a note with the names of bounds that apply but are not drawn; empty if there are none."""
    drawn = {bound.name for bound in chosen(curve)}
    others = [name for name in curve.applicable if name not in drawn]
    return f"not drawn: {', '.join(others)}" if others else ""


def why_none(curve: Curve) -> str:
    """Return a sentence for a panel without bounds, with the reason against a bound with weak assumptions."""
    method = curve.method.partition(":")[0]
    for name in (f"{method}-local", NAMESAKES.get(method, method), *curve.bounds):
        if name in curve.bounds and curve.bounds[name].reason:
            reason = curve.bounds[name].reason.partition("; ")[0]  # without the remedy, which the report gives
            return f"no bound applies; {name}: {maths(reason)}"
    return "no bound applies"


def draw(axes: Axes, t: np.ndarray, values: np.ndarray, role: str, bound: BoundCurve, **style: Any) -> Line2D:
    """Draw the finite values as one line across gaps, with markers where the bound was computed."""
    finite = np.isfinite(values)
    options: dict[str, Any] = {"lw": 1.2, "ms": 3.6, "gid": bound.name, "markevery": marked(finite, role)}
    (line,) = axes.plot(t[finite], values[finite], **options | bound_style(role, bound.side) | style)
    return line


def has_gaps(values: np.ndarray) -> bool:
    """Return whether values are missing between finite ones."""
    places = np.flatnonzero(np.isfinite(values))
    return bool(places.size and places.size < places[-1] - places[0] + 1)


def gaps_key() -> Line2D:
    """Return the key that explains how gaps are drawn."""
    words = "many markers on a line: the bound was computed at these t only"
    return Line2D([], [], color=GREY, ls="", marker="v", ms=3.6, label=words)


def marked(speaks: np.ndarray, role: str) -> list[int]:
    """Return the indices of the finite values that get a marker.

    Without gaps, a few values, to identify the bound. With gaps, all values, or the ends of each stretch if there are
    many.
    """
    places = np.flatnonzero(speaks)
    gaps = np.diff(places) > 1
    if not gaps.any():
        step = max(1, len(places) // SPARSE)
        first = step * list(ROLE_MARKERS).index(role) // len(ROLE_MARKERS)
        return list(range(min(first, max(len(places) - 1, 0)), len(places), step))
    if len(places) <= MANY:
        return list(range(len(places)))
    return [int(i) for i in np.flatnonzero(np.append(True, gaps) | np.append(gaps, True))]

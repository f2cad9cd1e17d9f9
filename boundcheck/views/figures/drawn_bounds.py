"""Which bounds a panel shows, what its legend says of each, and how a bound is drawn.

A panel shows at most five bounds, in this order of importance. A role is empty if no bound fits, and a bound has the
first of the roles that it fits.

1. violated: the tightest of the bounds that are violated.
2. paper: the bound named like the method, which is the paper's theorem about it.
3. a priori: the tightest that is known before a run.
4. a posteriori: the tightest that is computed from a run.
5. from the spectrum: the tightest from the eigenvalues of ∂₁Φ.
6. paper ball: the tightest a priori bound with constants of the paper's ball.

"Tightest" prefers a proved bound to a probable one, and that to an estimated one; among equals the mean of
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

MOST_BOUNDS = 5  # bounds in a panel
NAMESAKES = {"exact": "ghadimi-wang"}  # the paper's bound on a method that no bound is named like
MANY = 30  # computed values, more of which would hide the line under their markers
SPARSE = 5  # markers on a line that is computed everywhere


def roles(curve: Curve) -> dict[str, BoundCurve]:
    """The bounds that a panel shows, by role, as the list above says."""
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
    shown: dict[str, BoundCurve] = {}
    for role, candidates in fitting.items():
        # the first only: if that one is shown already, the role has nothing to add
        if candidates and len(shown) < MOST_BOUNDS and candidates[0].name not in {b.name for b in shown.values()}:
            shown[role] = candidates[0]
    return shown


def chosen(curve: Curve) -> list[BoundCurve]:
    """The bounds that `errors` and `tightness` draw for a method.

    They are the one named like the method, the tightest a priori, the tightest a posteriori, the tightest from the
    spectrum, and the tightest on the paper's ball. A bound that is violated comes first.

    Parameters
    ----------
    curve : Curve
        One method of a report.

    Returns
    -------
    list of BoundCurve
        At most five.

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
    """The mean logarithm of bound/error, or of the bound where no error is above the floor."""
    values = bound.values if bound.best is None else bound.tightness
    logs = np.log(values[np.isfinite(values) & (values > 0)])
    return float(logs.mean()) if logs.size else -np.inf


def label_of(bound: BoundCurve) -> str:
    """The name of the bound with the number of its theorem, and its verdict if it is violated."""
    return bound_name(bound.name, bound.reference) + (f", {bound.verdict.value}" if bound.verdict.is_violation else "")


def attained(bound: BoundCurve) -> str:
    """A note for the legend if the error covers the bound."""
    best, worst = bound.best, bound.worst
    covered = best is not None and worst is not None and 0.98 < best <= worst < 1.02
    return ", equal to the error" if covered else ""


def left_out(curve: Curve) -> str:
    """The note that names the bounds that apply and are not drawn; empty if there are none."""
    drawn = {bound.name for bound in chosen(curve)}
    others = [name for name in curve.applicable if name not in drawn]
    return f"not drawn: {', '.join(others)}" if others else ""


def why_none(curve: Curve) -> str:
    """A sentence for a panel without bounds: that none applies, and why the one that asks for least does not."""
    method = curve.method.partition(":")[0]
    for name in (f"{method}-local", NAMESAKES.get(method, method), *curve.bounds):
        if name in curve.bounds and curve.bounds[name].reason:
            reason = curve.bounds[name].reason.partition("; ")[0]  # what to do is said with all of the report in view
            return f"no bound applies; {name}: {maths(reason)}"
    return "no bound applies"


def draw(axes: Axes, t: np.ndarray, values: np.ndarray, role: str, bound: BoundCurve, **style: Any) -> Line2D:
    """Draw the finite values as one line, whose gaps are joined, with markers where the bound was computed."""
    speaks = np.isfinite(values)
    options: dict[str, Any] = {"lw": 1.2, "ms": 3.6, "gid": bound.name, "markevery": marked(speaks, role)}
    (line,) = axes.plot(t[speaks], values[speaks], **options | bound_style(role, bound.side) | style)
    return line


def has_gaps(values: np.ndarray) -> bool:
    """Whether there are values missing between others."""
    there = np.flatnonzero(np.isfinite(values))
    return bool(there.size and there.size < there[-1] - there[0] + 1)


def gaps_key() -> Line2D:
    """The key that says how gaps are drawn."""
    words = "many markers on a line: the bound was computed at these t only"
    return Line2D([], [], color=GREY, ls="", marker="v", ms=3.6, label=words)


def marked(speaks: np.ndarray, role: str) -> list[int]:
    """Which of the values that are there get a marker.

    Without gaps, some to tell the bound by. With gaps all of them, or the ends of each stretch if they are many.
    """
    there = np.flatnonzero(speaks)
    gaps = np.diff(there) > 1
    if not gaps.any():
        step = max(1, len(there) // SPARSE)
        first = step * list(ROLE_MARKERS).index(role) // len(ROLE_MARKERS)
        return list(range(min(first, max(len(there) - 1, 0)), len(there), step))
    if len(there) <= MANY:
        return list(range(len(there)))
    return [int(i) for i in np.flatnonzero(np.append(True, gaps) | np.append(gaps, True))]

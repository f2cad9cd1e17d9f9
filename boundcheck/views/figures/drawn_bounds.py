"""Which bounds a figure of errors shows, and what its legend says of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boundcheck.ball import BallKind
from boundcheck.theory.kinds import BoundKind

if TYPE_CHECKING:
    from boundcheck.report.method_curve import BoundCurve, Curve

MOST_BOUNDS = 4  # bounds in a panel of `errors`


def chosen(curve: Curve) -> list[BoundCurve]:
    """The bounds that `errors` draws for a method.

    The one named like the method, the tightest on each ball, the tightest from the spectrum, and the tightest a
    posteriori.

    Parameters
    ----------
    curve : Curve
        One method of a report.

    Returns
    -------
    list of BoundCurve
        At most four.
    """
    able = sorted((b for b in curve.applicable.values() if np.isfinite(b.values).any()), key=_looseness)
    stated = [b for b in able if b.name == curve.method.partition(":")[0]]
    after = [b for b in able if b.kind is BoundKind.A_POSTERIORI]
    # bounds from the spectrum are tighter than those from constants, and must not hide them
    foreseen = [b for b in able if b.kind is BoundKind.FROM_SPECTRUM]
    tightest = {b.ball: b for b in reversed(able) if b not in (*after, *foreseen)}
    ordered = (*stated, *(tightest[ball] for ball in sorted(tightest, reverse=True)), *foreseen[:1], *after[:1])
    return list({b.name: b for b in ordered}.values())[:MOST_BOUNDS]


def _looseness(bound: BoundCurve) -> float:
    """The mean logarithm of bound/error, or of the bound where no error is above the floor."""
    values = bound.values if bound.best is None else bound.tightness
    logs = np.log(values[np.isfinite(values) & (values > 0)])
    return float(logs.mean()) if logs.size else -np.inf


def label_of(bound: BoundCurve) -> str:
    """The number of the theorem, with its kind and ball where they matter."""
    # from the spectrum no ball matters
    says_ball = any(word in bound.reference for word in ("local", "shrinking", "spectrum"))
    ball = " (local ball)" if bound.ball == BallKind.LOCAL and not says_ball else ""
    return f"{bound.reference}{ball}" + (f", {bound.verdict.value}" if bound.verdict.is_violation else "")


def attained(bound: BoundCurve) -> str:
    """A note for the legend if the error covers the bound."""
    best, worst = bound.best, bound.worst
    covered = best is not None and worst is not None and 0.98 < best <= worst < 1.02
    return ", equal to the error" if covered else ""

"""How fast a Hessian with jumps leaves its value at w*: ‖∇²₁f(w) − ∇²₁f(w*)‖ ≤ ν‖w − w*‖ on a ball.

Where a derivative jumps inside of a ball it has no Lipschitz constant there. The theorems need less: how far it is from
its value at w*, over the distance. Next to w* there is mostly no jump. Between two balls around w* the distance is at
least the smaller radius, and the difference at most that on the larger ball, which the enclosures give.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from boundcheck.numerics.program.cholesky_certificate import frobenius, largest_eigenvalue
from boundcheck.numerics.program.enclosure.intervals import UP
from boundcheck.numerics.program.enclosure.scalar import Hessian, ScalarBounds, hessian_at
from boundcheck.numerics.program.enclosure.value import W, rounding

BALLS = 20  # around w*, each half as wide as the one before
NEAR = 100  # times that a ball must be wider than the doubt about its centre


@torch.no_grad()
def calm_hessian(over: ScalarBounds, around: Callable[[float], ScalarBounds], reach: float, distance: float) -> float:
    """At least ‖∇²₁f(w) − ∇²₁f(v)‖/‖w − v‖ for every w of a region and one v.

    Parameters
    ----------
    over : ScalarBounds
        Bounds over the region.
    around : callable of a radius
        Bounds over the ball of that radius around a point.
    reach : float
        At least how far the points of the region are from that point.
    distance : float
        At least how far v is from that point.

    Returns
    -------
    float
        Infinite where the third derivative has no bound next to the point.
    """
    if math.isfinite(over.third):
        return over.third
    if not 0 < reach < math.inf:
        return math.inf
    top = math.ceil(math.log2(reach)) - 1
    radii = [2.0 ** (top - i) for i in range(BALLS) if 2.0 ** (top - i) > NEAR * distance]
    if not radii or not math.isfinite(around(radii[-1]).third):
        return math.inf
    hessian = hessian_at(around(radii[-1]).over.curvature((W, W)))
    worst, outer = 0.0, over
    for radius in radii:
        worst = max(worst, _difference(outer, hessian) / (radius - distance) * UP)
        outer = around(radius)
        if math.isfinite(outer.third):
            return max(worst, outer.third)
    return math.inf


def _difference(bounds: ScalarBounds, at: Hessian) -> float:
    """At least ‖∇²₁f(w) − ∇²₁f(v)‖ over the ball of the bounds."""
    parts = bounds.over.curvature((W, W))
    lo = sum((part.lo for part in parts[1:]), parts[0].lo)
    up = sum((part.up for part in parts[1:]), parts[0].up)
    if not bool(lo.isfinite().all()) or not bool(up.isfinite().all()):
        return math.inf
    slack = math.fsum(part.slack for part in parts) + at.off
    sizes = math.fsum(frobenius(part.lo) + frobenius(part.up) for part in parts) + frobenius(at.H)
    slack += rounding(len(parts) + 1) * sizes
    size = max(largest_eigenvalue(up - at.H), largest_eigenvalue(at.H - lo), 0.0) + slack
    return math.inf if math.isnan(size) else size * UP

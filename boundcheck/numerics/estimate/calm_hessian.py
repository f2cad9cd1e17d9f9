"""The constant ν of a Hessian with jumps: ‖∇²₁f(w) − ∇²₁f(w*)‖ ≤ ν‖w − w*‖ on a ball.

A derivative that jumps inside a ball has no Lipschitz constant there. The theorems need less: its distance from its
value at w*, divided by ‖w − w*‖. Close to w* there is usually no jump. Between two balls around w*, ‖w − w*‖ is at
least the smaller radius, and the enclosures on the larger ball bound the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from boundcheck.numerics.program.cholesky_certificate import frobenius, largest_eigenvalue
from boundcheck.numerics.program.enclosure.intervals import UP
from boundcheck.numerics.program.enclosure.scalar import Hessian, ScalarBounds, hessian_at
from boundcheck.numerics.program.enclosure.value import W, rounding

BALLS = 20  # the number of balls around w*, each half as wide as the one before
NEAR = 100  # the radius of a ball must be more than this many times the error of its centre


@torch.no_grad()
def calm_hessian(over: ScalarBounds, around: Callable[[float], ScalarBounds], reach: float, distance: float) -> float:
    """Return an upper bound on ‖∇²₁f(w) − ∇²₁f(v)‖/‖w − v‖ for every w of a region and one point v.

    Parameters
    ----------
    over : ScalarBounds
        Bounds over the region.
    around : callable (radius) -> ScalarBounds
        Returns bounds over the ball with this radius around a computed point.
    reach : float
        Upper bound on the distance between the computed point and the points of the region.
    distance : float
        Upper bound on the distance between the computed point and v.

    Returns
    -------
    float
        Infinite if the third derivative has no bound near the computed point.
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


def _difference(bounds: ScalarBounds, hessian: Hessian) -> float:
    """Return an upper bound on ‖∇²₁f(w) − ∇²₁f(v)‖ over the ball of the bounds; `at` is the Hessian at v."""
    parts = bounds.over.curvature((W, W))
    lo = sum((part.lo for part in parts[1:]), parts[0].lo)
    up = sum((part.up for part in parts[1:]), parts[0].up)
    if not bool(lo.isfinite().all()) or not bool(up.isfinite().all()):
        return math.inf
    slack = math.fsum(part.slack for part in parts) + hessian.off
    sizes = math.fsum(frobenius(part.lo) + frobenius(part.up) for part in parts) + frobenius(hessian.H)
    slack += rounding(len(parts) + 1) * sizes
    size = max(largest_eigenvalue(up - hessian.H), largest_eigenvalue(hessian.H - lo), 0.0) + slack
    return math.inf if math.isnan(size) else size * UP

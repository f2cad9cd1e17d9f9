"""Bounds on the change of a map's derivative from one point v: ‖J(w) − J(v)‖ ≤ ν‖w − v‖ for every w of a ball.

A product changes by p(q − q_v) + (p − p_v)q_v, so one of the two factors is evaluated at v, where it is known. In a
bound by the second derivative, both factors range over the ball. For y = φ(x),

    J_y(w) − J_y(v) = φ'(x)(J_x(w) − J_x(v)) + (φ'(x) − φ'(x_v)) J_x(v),   |φ'(x) − φ'(x_v)| ≤ sup|φ''| |x − x_v|,

and in a product B(p, q) the derivatives of p and q by λ are evaluated at v.
"""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.bilinear import Bilinear
from boundcheck.numerics.program.enclosure.bilinear_sizes import size_of_pair
from boundcheck.numerics.program.enclosure.elementwise import Elementwise
from boundcheck.numerics.program.enclosure.intervals import UP
from boundcheck.numerics.program.enclosure.linear import Linear
from boundcheck.numerics.program.enclosure.scalar import values_before
from boundcheck.numerics.program.enclosure.value import Slope, Value, W, rounding


@torch.no_grad()
def calm_sizes(over: Value, at: Value, distance: float, slot: str) -> Tensor | None:
    """Return upper bounds of ‖J_i(w) − J_i(v)‖/‖w − v‖ for each entry, where J is the derivative by `slot`.

    Parameters
    ----------
    over : Value
        The tensor over a ball.
    at : Value
        The same tensor at a point of the ball.
    distance : float
        Upper bound of the distance between v and that point. v must lie in the ball too.
    slot : str
        One of the inputs.

    Returns
    -------
    Tensor or None
        The bounds; None if the two values were not computed in the same way.
    """
    values, points = values_before(over), values_before(at)
    if [(type(x.rule), x.shape, slot in x.slopes) for x in values] != [
        (type(y.rule), y.shape, slot in y.slopes) for y in points
    ]:
        return None
    sizes: dict[int, Tensor] = {}
    slopes: dict[int, Slope | None] = {}  # derivatives at v of the inputs of the rules
    for x, y in zip(values, points, strict=True):
        slopes[id(x)] = _moved(x, y.slopes.get(slot), distance, slot)
        along = x.bends.get((W, slot))
        if along is None:
            sizes[id(x)] = torch.zeros(x.shape, dtype=torch.float64)
        else:
            size = _through(x, sizes, slopes, slot)
            sizes[id(x)] = torch.where(size < along, size, along)  # NaN in `size` is replaced by the second derivative
    return sizes[id(over)]


def _moved(x: Value, at: Slope | None, distance: float, slot: str) -> Slope | None:
    """Return the derivative at v, from the derivative at a point within `distance`."""
    if at is None:
        return None
    off = distance * x.bends.get((W, slot), torch.zeros((), dtype=torch.float64))
    return Slope(at.F, at.slip, (at.rows + off) * UP)


def _through(x: Value, sizes: dict[int, Tensor], slopes: dict[int, Slope | None], slot: str) -> Tensor:
    """Bound the change by the rule of the result; for other rules, use the second derivative."""
    rule = x.rule
    if isinstance(rule, Linear):
        return rule.size(*(sizes[id(y)] for y in rule.inputs)) * (UP + rounding(rule.terms))
    if isinstance(rule, Elementwise):
        base, at_v = rule.base, slopes[id(rule.base)]
        size = rule.jet[1].size * sizes[id(base)]
        if at_v is not None and W in base.slopes:
            size = size + rule.jet[2].size * base.slopes[W].reach * at_v.reach
        return size * UP
    if isinstance(rule, Bilinear):
        return _of_product(rule, sizes, slopes)
    return x.bends[W, slot]


def _of_product(rule: Bilinear, sizes: dict[int, Tensor], slopes: dict[int, Slope | None]) -> Tensor:
    """Bound B(ΔJ_p, q) + B(J_p(v), Δq) + B(Δp, J_q(v)) + B(p, ΔJ_q)."""
    p, q, B = rule.p, rule.q, rule.B
    size = B(sizes[id(p)], q.box.size) + B(p.box.size, sizes[id(q)])
    for one, two in ((slopes[id(p)], q.slopes.get(W)), (p.slopes.get(W), slopes[id(q)])):
        if one is not None and two is not None:
            size = size + size_of_pair(B, q, one, two)
    return size * (UP + rounding(rule.terms))

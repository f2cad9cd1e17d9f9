"""How far derivatives of a map move from one point: ‖J(w) − J(v)‖ ≤ ν‖w − v‖ for every w of a ball and one v of it.

A product changes by p(q − q_v) + (p − p_v)q_v, so one of two factors stands at v, where it is known. The derivative
along the way has both somewhere on the ball. For y = φ(x),

    J_y(w) − J_y(v) = φ'(x)(J_x(w) − J_x(v)) + (φ'(x) − φ'(x_v)) J_x(v),   |φ'(x) − φ'(x_v)| ≤ sup|φ''| |x − x_v|,

and in a product B(p, q) the derivatives of p and q by λ stand at v.
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
    """At least ‖J_i(w) − J_i(v)‖/‖w − v‖ for each entry, J being the derivative by `slot`.

    Parameters
    ----------
    over : Value
        The tensor over a ball.
    at : Value
        The same tensor at a point of the ball.
    distance : float
        At least how far v is from that point; v is in the ball too.
    slot : str
        One of the inputs.

    Returns
    -------
    Tensor or None
        None where both were not computed in the same way.
    """
    values, points = values_before(over), values_before(at)
    if [(type(x.rule), x.shape, slot in x.slopes) for x in values] != [
        (type(y.rule), y.shape, slot in y.slopes) for y in points
    ]:
        return None
    sizes: dict[int, Tensor] = {}
    slopes: dict[int, Slope | None] = {}  # at v, for what the results over the ball read
    for x, y in zip(values, points, strict=True):
        slopes[id(x)] = _moved(x, y.slopes.get(slot), distance, slot)
        along = x.bends.get((W, slot))
        if along is None:
            sizes[id(x)] = torch.zeros(x.shape, dtype=torch.float64)
        else:
            size = _through(x, sizes, slopes, slot)
            sizes[id(x)] = torch.where(size < along, size, along)  # where one is NaN, the derivative along the way
    return sizes[id(over)]


def _moved(x: Value, at: Slope | None, distance: float, slot: str) -> Slope | None:
    """The derivative at v, which is near to the point at which it is known."""
    if at is None:
        return None
    off = distance * x.bends.get((W, slot), torch.zeros((), dtype=torch.float64))
    return Slope(at.F, at.slip, (at.rows + off) * UP)


def _through(x: Value, sizes: dict[int, Tensor], slopes: dict[int, Slope | None], slot: str) -> Tensor:
    """By the rule of the result; what has none here moves as the derivative along the way says."""
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
    """B(ΔJ_p, q) + B(J_p(v), Δq) + B(Δp, J_q(v)) + B(p, ΔJ_q)."""
    p, q, B = rule.p, rule.q, rule.B
    size = B(sizes[id(p)], q.box.size) + B(p.box.size, sizes[id(q)])
    for one, two in ((slopes[id(p)], q.slopes.get(W)), (p.slopes.get(W), slopes[id(q)])):
        if one is not None and two is not None:
            size = size + size_of_pair(B, q, one, two)
    return size * (UP + rounding(rule.terms))

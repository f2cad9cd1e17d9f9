"""Enclosures of a product of two tensors that both vary: its values, slopes and bends."""

from __future__ import annotations

from collections.abc import Callable

import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from boundcheck.numerics.program.enclosure.bilinear import Bilinear
from boundcheck.numerics.program.enclosure.bilinear_sizes import MATRICES, Product, size_of_pair
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, around
from boundcheck.numerics.program.enclosure.linear import image, sum_of
from boundcheck.numerics.program.enclosure.sparse_derivative import Sparse, of_factors, of_product
from boundcheck.numerics.program.enclosure.value import PAIRS, SLOTS, Slope, Value, rounding
from boundcheck.numerics.program.rounding_rules.ball import TINY


def bilinear_value(p: Value, q: Value, B: Product, *, entrywise: bool, terms: int) -> Value:
    """Return the enclosures of B(p, q)."""
    loss = rounding(terms)

    def enclosed(x: Interval, y: Interval) -> Interval:
        if entrywise:
            return x * y
        mid = B(x.mid, y.mid)
        rad = B(x.mid.abs(), y.rad + loss * y.mid.abs()) + B(x.rad, y.size)
        return around(mid, rad * (UP + loss) + terms * TINY)

    slopes = {slot: _slope(p, q, B, slot, loss) for slot in SLOTS if slot in p.slopes or slot in q.slopes}
    bends = {}
    for pair in PAIRS:
        parts = []
        for of_p, of_q in (pair, (pair[1], pair[0])):
            one, two = p.slopes.get(of_p), q.slopes.get(of_q)
            if one is not None and two is not None:
                parts.append(size_of_pair(B, q, one, two))
        if pair in p.bends:
            parts.append(B(p.bends[pair], q.box.size))
        if pair in q.bends:
            parts.append(B(p.box.size, q.bends[pair]))
        if parts:
            bends[pair] = torch.stack(parts).sum(0) * (UP + loss)
    rule = Bilinear(p, q, B, entrywise, terms)
    centre = enclosed(p.centre, q.centre)
    box = centre if p.at_point and q.at_point else enclosed(p.box, q.box)
    return Value(centre, box, slopes, bends, rule)


def _slope(p: Value, q: Value, B: Product, slot: str, loss: float) -> Slope:
    """Return B(Dp, q) + B(p, Dq), the derivative by one input."""
    one, two = p.slopes.get(slot), q.slopes.get(slot)
    p_mid, q_mid = p.centre.mid, q.centre.mid
    parts: list[Tensor | Sparse] = []
    slip = rows = torch.zeros((), dtype=torch.float64)
    if one is not None:
        parts.append(_image(one, lambda x: B(x, q_mid), B, q_mid, first=True))
        error = 2 * loss * B(one.norms, q_mid.abs())
        slip = slip + B(one.slip, q.centre.size) + B(one.norms, q.centre.rad) + error
        rows = rows + B(one.rows, q.box.size) + B(one.norms, q.off()) + error
    if two is not None:
        parts.append(_image(two, lambda x: B(p_mid, x), B, p_mid, first=False))
        error = 2 * loss * B(p_mid.abs(), two.norms)
        slip = slip + B(p.centre.size, two.slip) + B(p.centre.rad, two.norms) + error
        rows = rows + B(p.box.size, two.rows) + B(p.off(), two.norms) + error
    return Slope(sum_of(parts), slip * (UP + loss), rows * (UP + loss))


def _image(slope: Slope, f: Callable[[Tensor], Tensor], B: Product, other: Tensor, *, first: bool) -> Tensor | Sparse:
    """Return the derivative of B(x, other) if `first`, else of B(other, x)."""

    def coefficients() -> csr_matrix | None:
        if B in MATRICES:
            return of_product(other, slope.slip.shape, first)
        return of_factors(other, other.shape, other.shape) if B is torch.mul else None

    shape = f(torch.zeros(slope.slip.shape, dtype=torch.float64)).shape
    return image(slope, f, shape, coefficients, moves=False)

"""Functions of one number that are composed of several, such as log(1 + e^(−z)), z·σ(z), √(z² + ε).

Such a chain is one function of its base z, entry by entry. Its derivatives are enclosed on small pieces of the box of
z, and the enclosures are joined. This is much tighter than enclosing each step by itself, as the steps depend on each
other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.elementary import Elementary, Jet
from boundcheck.numerics.program.enclosure.intervals import Interval, point
from boundcheck.numerics.program.enclosure.piecewise import power_of_fold
from boundcheck.numerics.program.enclosure.value import Value

PIECES = 64  # number of pieces of a box
Jets = Callable[[Interval], Jet]


@dataclass(frozen=True, eq=False)
class Chain:
    """x = φ(base), entry by entry. `bent` counts the nonlinear functions in φ, and `last` is the last of them."""

    base: Value
    jets: Jets
    bent: int
    last: Last | None = None

    def jet(self, box: Interval) -> Jet:
        """Return ranges of φ, φ', φ'', φ''' over a box of the base."""
        if self.bent < 2 or box.exact:
            return self.jets(box)
        share = torch.linspace(0, 1, PIECES + 1, dtype=torch.float64).reshape(-1, *[1] * box.lo.dim())
        cuts = box.lo + (box.hi - box.lo) * share
        cuts[0], cuts[-1] = box.lo, box.hi
        pieces = self.jets(Interval(cuts[:-1], torch.maximum(cuts[1:], cuts[:-1])))
        hulls = [
            Interval(piece.lo.expand_as(cuts[1:]).amin(0), piece.hi.expand_as(cuts[1:]).amax(0)) for piece in pieces
        ]
        return hulls[0], hulls[1], hulls[2], hulls[3]


@dataclass(frozen=True, eq=False)
class Last:
    """The function that a chain ends with, and the chain that it is applied to."""

    function: Elementary
    inner: Chain


def chain_of(x: Value) -> Chain:
    """Return the chain of a tensor; the identity if it has none."""
    return x.chain or identity(x)


def identity(base: Any) -> Chain:
    """Return the identity as a chain. `base` may be any object; chains only compare bases for identity."""
    return Chain(base, _identity, 0)


def _identity(z: Interval) -> Jet:
    zero, one = point(torch.zeros_like(z.lo)), point(torch.ones_like(z.lo))
    return z, one, zero, zero


def applied(function: Elementary, inner: Chain) -> Chain:
    """Return φ ∘ inner, by the formula of Faà di Bruno. A power of max(x, 0) or |x| is one function."""
    last = inner.last
    if last is not None and last.function.fold and function.exponent:
        return applied(power_of_fold(last.function.fold, function.exponent), last.inner)

    def jets(z: Interval) -> Jet:
        h, h1, h2, h3 = inner.jets(z)
        f, f1, f2, f3 = function.jet(h)
        if not inner.bent:
            return f, f1 * h1, f2 * _square(h1), f3 * _square(h1) * h1
        second = f2 * _square(h1) + f1 * h2
        third = f3 * _square(h1) * h1 + point(3.0) * f2 * h1 * h2 + f1 * h3
        return f, f1 * h1, second, third

    return Chain(inner.base, jets, inner.bent + 1, Last(function, inner))


def scaled(inner: Chain, factor: Tensor, offset: Tensor) -> Chain:
    """Return factor·inner + offset."""
    if bool((factor == 1).all()) and bool((offset == 0).all()):
        return inner

    def jets(z: Interval) -> Jet:
        h, h1, h2, h3 = inner.jets(z)
        by = point(factor)
        return by * h + point(offset), by * h1, by * h2, by * h3

    return Chain(inner.base, jets, inner.bent)


def summed(a: Chain, b: Chain, sign: float) -> Chain:
    """Return a ± b for chains with the same base."""

    def jets(z: Interval) -> Jet:
        by = point(sign)
        w, x, y, v = (x + by * y for x, y in zip(a.jets(z), b.jets(z), strict=True))
        return w, x, y, v

    return Chain(a.base, jets, a.bent + b.bent + 1)


def multiplied(a: Chain, b: Chain) -> Chain:
    """Return a·b for chains with the same base, by the formula of Leibniz."""

    def jets(z: Interval) -> Jet:
        f, f1, f2, f3 = a.jets(z)
        g, g1, g2, g3 = b.jets(z)
        three = point(3.0)
        return (
            f * g,
            f1 * g + f * g1,
            f2 * g + point(2.0) * f1 * g1 + f * g2,
            f3 * g + three * f2 * g1 + three * f1 * g2 + f * g3,
        )

    return Chain(a.base, jets, a.bent + b.bent + 2)


def _square(x: Interval) -> Interval:
    """Return x², which is not negative."""
    product = x * x
    holds_zero = (x.lo <= 0) & (x.hi >= 0)
    return Interval(torch.where(holds_zero, torch.zeros_like(product.lo), product.lo.clamp(min=0)), product.hi)

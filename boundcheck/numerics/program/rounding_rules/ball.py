"""Balls: tensors of midpoints and radii in float64, with operations that enclose the exact result.

`Ball(mid, rad)` stands for every real tensor x with |x − mid| ≤ rad, entry by entry. An operation returns a ball of
all exact results. Its midpoint is computed in float64 to nearest. Its radius holds what the radii of the inputs allow
and what this computation rounds; each radius is a sum of a few non-negative terms, which `up` raises by more than
their own rounding.

Assumed: IEEE arithmetic to nearest; sums of n terms and matrix products in any order, with or without fused products,
err by at most γ_n Σ|terms|; a product or quotient that underflows errs by at most `TINY`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

U = 2.0**-53  # the unit of rounding of float64
TINY = 1e-300  # above any error of underflow, also of a few together
SMALL = 1e-290  # below this, a product may underflow
Real: TypeAlias = "Ball | Tensor | float"


class Refusal(Exception):  # noqa: N818
    """Nothing is proved, for the reason given; never shown to users."""


@dataclass(frozen=True, eq=False)
class Ball:
    """All x with |x − mid| ≤ rad, entry by entry."""

    mid: Tensor
    rad: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.mid.shape

    @property
    def exact(self) -> bool:
        """Is it one point?"""
        return not bool(self.rad.any())

    @property
    def size(self) -> Tensor:
        """At least |x| for all x in it."""
        return up(self.mid.abs() + self.rad)

    def map(self, move: Callable[[Tensor], Tensor]) -> Ball:
        """The same move of entries on midpoints and radii."""
        return Ball(move(self.mid), move(self.rad))


def gamma(n: int) -> float:
    """γ_n = nU/(1 − nU) with room for a few more roundings."""
    return (n + 2) * U * (1 + 1e-6)


def up(x: Tensor, terms: int = 0) -> Tensor:
    """More than a non-negative number that was computed as x in a few operations, with a sum of `terms` terms."""
    return x * (1 + 2.0**-45 + gamma(terms))


def down(x: Tensor) -> Tensor:
    """Less than a positive number that was computed as x in a few operations."""
    return x * (1 - 2.0**-45)


def point(x: Tensor) -> Ball:
    """Stored numbers, which are exact; whole numbers above 2⁵³ are refused."""
    if not x.is_floating_point() and x.numel() and x.dtype == torch.int64 and bool((x.abs() > 2**53).any()):
        raise Refusal("a whole number above 2**53 is used in float arithmetic")
    mid = x.detach().to(torch.float64)
    return Ball(mid, mid.new_zeros(()).expand(mid.shape))


def ball(x: Any) -> Ball:
    """A ball itself, a tensor of stored numbers or a Python number."""
    if isinstance(x, Ball):
        return x
    if isinstance(x, Tensor):
        return point(x)
    if isinstance(x, bool | int | float) and float(x) == x:
        return point(torch.tensor(float(x), dtype=torch.float64))
    raise Refusal(f"the argument {x!r} is not a float64 number")


def close(mid: float, like: Ball) -> Ball:
    """A real constant that float64 rounds to `mid`, such as √½."""
    return Ball(like.mid.new_tensor(mid), like.mid.new_tensor(2 * U * abs(mid)))


def add(a: Real, b: Real) -> Ball:
    """a + b; what the sum rounds is computed exactly (Knuth), so that exact sums stay exact."""
    x, y = ball(a), ball(b)
    mid = x.mid + y.mid
    part = mid - x.mid
    lost = (x.mid - (mid - part)) + (y.mid - part)
    return Ball(mid, up(x.rad + y.rad + lost.abs()))


def neg(a: Real) -> Ball:
    """−a."""
    x = ball(a)
    return Ball(-x.mid, x.rad)


def sub(a: Real, b: Real) -> Ball:
    """a − b."""
    return add(a, neg(b))


def _power_of_two(x: Tensor) -> Tensor:
    return torch.frexp(x).mantissa.abs() == 0.5


def mul(a: Real, b: Real) -> Ball:
    """ab; products with 0 and with powers of two stay exact."""
    x, y = ball(a), ball(b)
    mid = x.mid * y.mid
    simple = _power_of_two(x.mid) | _power_of_two(y.mid)
    rad = x.mid.abs() * y.rad + x.rad * (y.mid.abs() + y.rad)
    rad = up(rad + torch.where(simple, 0.0, U * mid.abs()))
    both = ((x.mid != 0) | (x.rad != 0)) & ((y.mid != 0) | (y.rad != 0))
    blurred = ~simple | (mid.abs() < SMALL) | (x.rad != 0) | (y.rad != 0)
    return Ball(mid, rad + TINY * (both & blurred))


def div(a: Real, b: Real) -> Ball:
    """a/b: a'/b' − a/b = ((a' − a) − (a/b)(b' − b))/b'."""
    x, y = ball(a), ball(b)
    least = down(y.mid.abs() - y.rad)
    if not bool((least > 0).all()):
        raise Refusal("a divisor may be 0")
    if y.exact and bool(_power_of_two(y.mid).all()) and bool((y.mid.abs() > SMALL).all()):
        return mul(x, Ball(1 / y.mid, y.rad))
    mid = x.mid / y.mid
    rad = up((x.rad + mid.abs() * y.rad * (1 + 4 * U)) / least + U * mid.abs())
    return Ball(mid, rad + TINY * ((x.mid != 0) | (x.rad != 0)))


def square(a: Real) -> Ball:
    """a²."""
    return mul(a, a)


def function(value: Tensor, spread: Tensor, ulps: float = 4) -> Ball:
    """f(a), from f(mid) within `ulps` units in the last place and a bound of |f(x) − f(mid)| for x in a."""
    return Ball(value, up(spread + (2 * ulps * U) * value.abs()) + TINY)


def total(a: Ball, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Ball:
    """The sum over some axes, or all of them."""
    axes = list(range(a.mid.dim())) if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)
    if not axes:
        return a
    n = math.prod(a.shape[i] for i in axes)
    mid = a.mid.sum(axes, keepdim)
    loss = gamma(n) * a.mid.abs() if n > 1 else torch.zeros_like(a.mid)
    return Ball(mid, up((a.rad + loss).sum(axes, keepdim), n))


def bilinear(f: Callable[[Tensor, Tensor], Tensor], a: Ball, b: Ball, n: int) -> Ball:
    """f(a, b) for a bilinear f with coefficients 0 and 1 that sums at most n products for an entry."""
    mid = f(a.mid, b.mid)
    rad = f(a.mid.abs(), b.rad + gamma(n) * b.mid.abs())
    if not a.exact:
        rad = rad + f(a.rad, b.mid.abs() + b.rad)
    rad, under = up(rad, n), n * TINY
    if bool((rad == 0).any()):  # where every product has a factor 0, so has the exact one
        return Ball(mid, rad + under * (f(_not_zero(a), _not_zero(b)) != 0))
    return Ball(mid, rad + under)


def _not_zero(a: Ball) -> Tensor:
    return ((a.mid != 0) | (a.rad != 0)).to(torch.float64)


def matmul(a: Ball, b: Ball) -> Ball:
    """The product of matrices, vectors or stacks of matrices."""
    return bilinear(torch.matmul, a, b, a.shape[-1])


def norm(a: Ball) -> float:
    """At least the Euclidean norm of every x in it."""
    n = a.mid.numel()
    size = float(a.size.norm())
    return size * (1 + 2.0**-45 + gamma(n)) + math.sqrt(n * TINY)


def choose(where: Tensor, a: Real, b: Real) -> Ball:
    """a where the condition is true, else b."""
    x, y = ball(a), ball(b)
    return Ball(torch.where(where, x.mid, y.mid), torch.where(where, x.rad, y.rad))

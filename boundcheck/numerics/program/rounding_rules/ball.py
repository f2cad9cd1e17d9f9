"""Balls: tensors of midpoints and radii in float64, with operations that enclose the exact result.

`Ball(mid, rad)` is the set of all real tensors x with |x − mid| ≤ rad, entry by entry. An operation returns a ball that
contains all exact results. Its midpoint is computed in float64, rounded to nearest. Its radius covers the radii of the
inputs and the rounding of the midpoint. Each radius is a sum of a few non-negative terms, which `up` raises by more
than their own rounding.

Assumptions: IEEE arithmetic, rounded to nearest. Sums of n terms and matrix products, in any order and with or without
fused products, have an error of at most γ_n Σ|terms|. A product or quotient that underflows has an error of at most
`TINY`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

U = 2.0**-53  # the unit of rounding of float64
TINY = 1e-300  # larger than any error of underflow, or the sum of a few of them
SMALL = 1e-290  # below this, a product may underflow
Real: TypeAlias = "Ball | Tensor | float"


class Refusal(Exception):  # noqa: N818
    """Nothing is proved. The message gives the reason; users never see it."""


@dataclass(frozen=True, eq=False)
class Ball:
    """The set of all x with |x − mid| ≤ rad, entry by entry."""

    mid: Tensor
    rad: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.mid.shape

    @property
    def exact(self) -> bool:
        """Whether the ball is a single point."""
        return not bool(self.rad.any())

    @property
    def size(self) -> Tensor:
        """An upper bound of |x| for all x in the ball."""
        return up(self.mid.abs() + self.rad)

    def map(self, move: Callable[[Tensor], Tensor]) -> Ball:
        """Apply the same move of entries to midpoints and radii."""
        return Ball(move(self.mid), move(self.rad))


def gamma(n: int) -> float:
    """Return γ_n = nU/(1 − nU) with a margin for a few more roundings."""
    return (n + 2) * U * (1 + 1e-6)


def up(x: Tensor, terms: int = 0) -> Tensor:
    """Return an upper bound of a non-negative number.

    x is its value as computed in float64 in a few operations, including a sum of `terms` terms.
    """
    return x * (1 + 2.0**-45 + gamma(terms))


def down(x: Tensor) -> Tensor:
    """Return a lower bound of a positive number, computed as x in a few operations."""
    return x * (1 - 2.0**-45)


def point(x: Tensor) -> Ball:
    """Return a ball of radius 0 with stored numbers. Integers above 2⁵³ are refused."""
    if not x.is_floating_point() and x.numel() and x.dtype == torch.int64 and bool((x.abs() > 2**53).any()):
        raise Refusal("a whole number above 2**53 is used in float arithmetic")
    mid = x.detach().to(torch.float64)
    return Ball(mid, mid.new_zeros(()).expand(mid.shape))


def ball(x: Any) -> Ball:
    """Convert a tensor of stored numbers or a Python number to a ball. A ball is returned as it is."""
    if isinstance(x, Ball):
        return x
    if isinstance(x, Tensor):
        return point(x)
    if isinstance(x, bool | int | float) and float(x) == x:
        return point(torch.tensor(float(x), dtype=torch.float64))
    raise Refusal(f"the argument {x!r} is not a float64 number")


def close(mid: float, like: Ball) -> Ball:
    """Return a ball around a real constant that float64 rounds to `mid`, such as √½."""
    return Ball(like.mid.new_tensor(mid), like.mid.new_tensor(2 * U * abs(mid)))


def add(a: Real, b: Real) -> Ball:
    """a + b. The rounding error is computed exactly (Knuth), so exact sums stay exact."""
    x, y = ball(a), ball(b)
    mid = x.mid + y.mid
    part = mid - x.mid
    error = (x.mid - (mid - part)) + (y.mid - part)
    return Ball(mid, up(x.rad + y.rad + error.abs()))


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
    """ab. Products with 0 and with powers of two stay exact."""
    x, y = ball(a), ball(b)
    mid = x.mid * y.mid
    simple = _power_of_two(x.mid) | _power_of_two(y.mid)
    rad = x.mid.abs() * y.rad + x.rad * (y.mid.abs() + y.rad)
    rad = up(rad + torch.where(simple, 0.0, U * mid.abs()))
    both_nonzero = ((x.mid != 0) | (x.rad != 0)) & ((y.mid != 0) | (y.rad != 0))
    inexact = ~simple | (mid.abs() < SMALL) | (x.rad != 0) | (y.rad != 0)
    return Ball(mid, rad + TINY * (both_nonzero & inexact))


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
    """Return a ball of f(a).

    `value` is f(mid) up to `ulps` units in the last place, and `spread` is at least |f(x) − f(mid)| for all x in a.
    """
    return Ball(value, up(spread + (2 * ulps * U) * value.abs()) + TINY)


def total(a: Ball, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Ball:
    """Sum over some axes, or over all of them."""
    axes = list(range(a.mid.dim())) if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)
    if not axes:
        return a
    n = math.prod(a.shape[i] for i in axes)
    mid = a.mid.sum(axes, keepdim)
    loss = gamma(n) * a.mid.abs() if n > 1 else torch.zeros_like(a.mid)
    return Ball(mid, up((a.rad + loss).sum(axes, keepdim), n))


def bilinear(f: Callable[[Tensor, Tensor], Tensor], a: Ball, b: Ball, n: int) -> Ball:
    """f(a, b) for a bilinear f with coefficients 0 and 1, whose entries are sums of at most n products."""
    mid = f(a.mid, b.mid)
    rad = f(a.mid.abs(), b.rad + gamma(n) * b.mid.abs())
    if not a.exact:
        rad = rad + f(a.rad, b.mid.abs() + b.rad)
    rad, under = up(rad, n), n * TINY
    if bool((rad == 0).any()):  # if every product of an entry has a factor 0, the entry is exact
        return Ball(mid, rad + under * (f(_not_zero(a), _not_zero(b)) != 0))
    return Ball(mid, rad + under)


def _not_zero(a: Ball) -> Tensor:
    return ((a.mid != 0) | (a.rad != 0)).to(torch.float64)


def matmul(a: Ball, b: Ball) -> Ball:
    """Product of matrices, vectors or stacks of matrices."""
    return bilinear(torch.matmul, a, b, a.shape[-1])


def norm(a: Ball) -> float:
    """Return an upper bound of the Euclidean norm of all x in the ball."""
    n = a.mid.numel()
    size = float(a.size.norm())
    return size * (1 + 2.0**-45 + gamma(n)) + math.sqrt(n * TINY)


def choose(where: Tensor, a: Real, b: Real) -> Ball:
    """Return a where the condition is true, and b elsewhere."""
    x, y = ball(a), ball(b)
    return Ball(torch.where(where, x.mid, y.mid), torch.where(where, x.rad, y.rad))

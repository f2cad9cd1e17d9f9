"""Intervals of tensors, entry by entry, with ends that are moved outwards by more than their rounding.

All ends are float64, with the assumptions of `rounding_rules.ball` about float64 arithmetic. An end may be infinite. A
product of 0 and an infinite end is 0, since an interval contains finite numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.numerics.program.rounding_rules.ball import TINY, U, gamma

VANISHING = 1e-140  # squares of smaller numbers lose digits
UP = 1 + 2.0**-45  # more than the rounding of a few operations on numbers of one sign


def outward(lo: Tensor, hi: Tensor, units: float = 2) -> Interval:
    """Return the interval with its ends moved outwards by some units of rounding."""
    return Interval(lo - units * U * lo.abs() - TINY, hi + units * U * hi.abs() + TINY)


@dataclass(frozen=True, eq=False)
class Interval:
    """All x with lo ≤ x ≤ hi, entry by entry."""

    lo: Tensor
    hi: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.lo.shape

    @cached_property
    def mid(self) -> Tensor:
        """A point of the interval near its middle; 0 if an end is infinite."""
        mid = self.lo / 2 + self.hi / 2
        return torch.where(mid.isfinite(), mid, torch.zeros_like(mid))

    @cached_property
    def rad(self) -> Tensor:
        """Upper bound of |x − mid| for all x in the interval."""
        return torch.maximum(self.hi - self.mid, self.mid - self.lo) * UP

    @cached_property
    def size(self) -> Tensor:
        """The largest |x| in the interval."""
        return torch.maximum(self.lo.abs(), self.hi.abs())

    @cached_property
    def exact(self) -> bool:
        """Whether the interval is a single point."""
        return bool((self.lo == self.hi).all())

    @cached_property
    def finite(self) -> bool:
        """Whether all ends are finite."""
        return bool((self.lo.isfinite() & self.hi.isfinite()).all())

    @cached_property
    def keeps_digits(self) -> bool:
        """Whether every number is 0, 1 or −1, so that products with it do not round."""
        return self.exact and bool(((self.lo == 0) | (self.lo.abs() == 1)).all())

    def map(self, move: Callable[[Tensor], Tensor]) -> Interval:
        """Apply the same move of entries to both ends."""
        return Interval(move(self.lo), move(self.hi))

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __add__(self, other: Interval) -> Interval:
        return outward(self.lo + other.lo, self.hi + other.hi)

    def __sub__(self, other: Interval) -> Interval:
        return self + (-other)

    def __mul__(self, other: Interval) -> Interval:
        times = torch.mul if self.finite and other.finite else _times
        ends = [
            times(a, b)
            for a in ((self.lo,) if self.exact else (self.lo, self.hi))
            for b in ((other.lo,) if other.exact else (other.lo, other.hi))
        ]
        lo, hi = ends[0], ends[0]
        for end in ends[1:]:
            lo, hi = torch.minimum(lo, end), torch.maximum(hi, end)
        return Interval(lo, hi) if self.keeps_digits or other.keeps_digits else outward(lo, hi)

    def meet(self, other: Interval) -> Interval:
        """Return the intersection of two intervals that contain the same number."""
        return Interval(torch.maximum(self.lo, other.lo), torch.minimum(self.hi, other.hi))

    def join(self, other: Interval) -> Interval:
        """Return the smallest interval that contains both."""
        return Interval(torch.minimum(self.lo, other.lo), torch.maximum(self.hi, other.hi))

    def grown(self, by: Tensor) -> Interval:
        """Return the interval with both ends moved outwards by `by`."""
        return outward(self.lo - by, self.hi + by)


def _times(a: Tensor, b: Tensor) -> Tensor:
    product = a * b
    return torch.where((a == 0) | (b == 0), torch.zeros_like(product), product)


def point(x: Tensor | float) -> Interval:
    """Return the interval of a single number, or of a tensor of stored numbers."""
    x = torch.as_tensor(x, dtype=torch.float64)
    return Interval(x, x)


def around(mid: Tensor, rad: Tensor) -> Interval:
    """Return an interval that contains all x with |x − mid| ≤ rad."""
    return outward(mid - rad, mid + rad)


def euclidean(x: Tensor, dim: int) -> Tensor:
    """Return the Euclidean norm over an axis, or the upper bound √n times the largest entry if squares underflow."""
    size: Tensor = torch.linalg.vector_norm(x, dim=dim)
    if bool((size < VANISHING).any()):
        top = torch.linalg.vector_norm(x, ord=math.inf, dim=dim) if x.shape[dim] else torch.zeros_like(size)
        size = torch.where(top < VANISHING, top * x.shape[dim] ** 0.5, size)
    return size


def norm(x: Tensor) -> float:
    """Return an upper bound of the Euclidean norm of the entries."""
    return float(euclidean(x.reshape(-1), 0)) * (1 + 2.0**-45 + gamma(x.numel())) + x.numel() * TINY


def total(x: Tensor) -> float:
    """Return an upper bound of the sum of non-negative numbers."""
    return float(x.sum()) * (1 + 2.0**-45 + gamma(x.numel())) + TINY


def row_norms(F: Tensor) -> Tensor:
    """Return upper bounds of the Euclidean norms over the first axis."""
    norms: Tensor = euclidean(F, 0) * (1 + 2.0**-45 + gamma(F.shape[0])) + F.shape[0] * TINY
    return norms

"""Ramps, from which the instances are built: functions that are linear on each side of 0, and constant further out.

    F(ξ) = F* + a₊ min(ξ₊, m₊) + a₋ min(ξ₋, m₋),   ξ₊ = max(ξ, 0), ξ₋ = max(−ξ, 0).

F is monotone on each side, so on an interval that contains 0, |F| is largest at 0 or at an end. The Lipschitz constant
is max{|a₊|, |a₋|}. Both are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from boundcheck.worst_case.arithmetic import Arithmetic, Array


@dataclass(frozen=True, eq=False)
class Ramp:
    """A ramp for each coordinate: arrays of shape (…, d)."""

    star: Array
    plus: Array
    minus: Array
    m_plus: Array
    m_minus: Array

    def change(self, ops: Arithmetic, xi: Array) -> Array:
        """Return F(ξ) − F*, without cancellation."""
        right, left = _sides(ops, xi)
        return self.plus * ops.minimum(right, self.m_plus) + self.minus * ops.minimum(left, self.m_minus)

    def __call__(self, ops: Arithmetic, xi: Array) -> Array:
        return self.star + self.change(ops, xi)

    def integral(self, ops: Arithmetic, xi: Array) -> Array:
        """Return ∫F from 0 to ξ."""
        return self.change_and_integral(ops, xi)[1]

    def change_and_integral(self, ops: Arithmetic, xi: Array) -> tuple[Array, Array]:
        """Return `change` and `integral`. The integral of min(·, m) from 0 to s is c·s − c²/2 with c = min(s, m)."""
        right, left = _sides(ops, xi)
        c, b = ops.minimum(right, self.m_plus), ops.minimum(left, self.m_minus)
        up, down = self.plus * c, self.minus * b
        return up + down, self.star * xi + up * (right - c / 2) - down * (left - b / 2)

    @property
    def ends(self) -> tuple[Array, Array]:
        """The values far to the right and far to the left."""
        return self.star + self.plus * self.m_plus, self.star + self.minus * self.m_minus

    def highest(self, ops: Arithmetic) -> Array:
        """Return sup F for each coordinate."""
        right, left = self.ends
        return ops.maximum(ops.maximum(right, left), self.star)

    def lowest(self, ops: Arithmetic) -> Array:
        right, left = self.ends
        return ops.minimum(ops.minimum(right, left), self.star)

    def size(self, ops: Arithmetic, low: Array, high: Array) -> Array:
        """Return sup |F| for each coordinate over [low, high], which contains 0."""
        ends = ops.maximum(abs(self(ops, low)), abs(self(ops, high)))
        return ops.maximum(ends, abs(self.star))

    def lipschitz(self, ops: Arithmetic) -> Array:
        """Return the Lipschitz constant of ξ ↦ (F_i(ξ_i)), which has a diagonal derivative."""
        return ops.largest(ops.maximum(abs(self.plus), abs(self.minus)))

    def scaled(self, by: Array) -> Ramp:
        return Ramp(self.star * by, self.plus * by, self.minus * by, self.m_plus, self.m_minus)

    def through(self, star: Array) -> Ramp:
        """Return the same ramp with another value at 0."""
        return Ramp(star, self.plus, self.minus, self.m_plus, self.m_minus)

    def shifted(self, by: Array) -> Ramp:
        return Ramp(self.star + by, self.plus, self.minus, self.m_plus, self.m_minus)


def _sides(ops: Arithmetic, xi: Array) -> tuple[Array, Array]:
    return ops.positive(xi), ops.positive(-xi)

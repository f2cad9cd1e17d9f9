"""Arithmetic with constants that keeps track of the side of the result.

>>> from boundcheck.constants import Constant, Provenance
>>> from boundcheck.side_arithmetic import sided
>>> L_Phi, q = Constant("L_Phi_star", 2.0, "exact"), Constant("q", 0.75, "upper")
>>> W = sided(L_Phi) / (1 - sided(q))
>>> W.value, W.side.value
(8.0, 'upper')
>>> W.named("W", Provenance("L_Φ*/(1 − q)")).side.value
'upper'

Constants and factors of a product must be at least 0, and divisors positive, both the values and the true values. Then
sums and products grow with their terms, and quotients fall with the divisor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from boundcheck.constants import Constant, Provenance
from boundcheck.errors import InputError
from boundcheck.side import Side, estimate_side, safe_side

FLIPPED = {Side.EXACT: Side.EXACT, Side.UPPER: Side.LOWER, Side.LOWER: Side.UPPER, None: None}


@dataclass(frozen=True)
class SidedValue:
    """A number computed from constants, with its side.

    Parameters
    ----------
    value : float
    side : Side, optional
        Exact, upper or lower, if no certificate of the sources failed; None if nothing is known.
    sources : tuple of Constant
        The constants from which it was computed, each once.
    """

    value: float
    side: Side | None = Side.EXACT
    sources: tuple[Constant, ...] = ()

    def __add__(self, other: SidedValue | float) -> SidedValue:
        other = _lifted(other)
        return self._joined(other, self.value + other.value, other.side)

    def __sub__(self, other: SidedValue | float) -> SidedValue:
        other = _lifted(other)
        return self._joined(other, self.value - other.value, FLIPPED[other.side])

    def __mul__(self, other: SidedValue | float) -> SidedValue:
        other = _lifted(other)
        if self.value < 0 or other.value < 0:
            raise InputError(f"{self.value:g} · {other.value:g} has no side; both factors must be at least 0")
        return self._joined(other, self.value * other.value, other.side)

    def __truediv__(self, other: SidedValue | float) -> SidedValue:
        other = _lifted(other)
        if self.value < 0 or other.value <= 0:
            raise InputError(f"{self.value:g}/{other.value:g} has no side; the divisor must be positive, both ≥ 0")
        return self._joined(other, self.value / other.value, FLIPPED[other.side])

    def __radd__(self, other: float) -> SidedValue:
        return SidedValue(other) + self

    def __rsub__(self, other: float) -> SidedValue:
        return SidedValue(other) - self

    def __rmul__(self, other: float) -> SidedValue:
        return SidedValue(other) * self

    def __rtruediv__(self, other: float) -> SidedValue:
        return SidedValue(other) / self

    def _joined(self, other: SidedValue, value: float, other_side: Side | None) -> SidedValue:
        new = tuple(source for source in other.sources if source not in self.sources)
        return SidedValue(value, _agreed(self.side, other_side), self.sources + new)

    def bounds_above(self) -> SidedValue:
        """Return the value as an upper bound on another quantity; it has no side if the value may be too small."""
        return replace(self, side=_agreed(self.side, Side.UPPER))

    def bounds_below(self) -> SidedValue:
        """Return the value as a lower bound on another quantity; it has no side if the value may be too large."""
        return replace(self, side=_agreed(self.side, Side.LOWER))

    @property
    def delta(self) -> float | None:
        """An upper bound on the probability that a certificate of a source failed; None if there is none."""
        return min(1.0, sum(source.provenance.delta or 0.0 for source in self.sources)) or None

    def named(self, name: str, provenance: Provenance) -> Constant:
        """Return the value as a constant, with the δ of its sources.

        Parameters
        ----------
        name : str
            The name of the constant.
        provenance : Provenance
            How the value was computed; its δ is replaced.

        Returns
        -------
        Constant
            The constant. Its side is high-probability if a source has this side. A value whose safe side is not proved
            is an estimate.
        """
        provenance = replace(provenance, delta=self.delta)
        likely = any(source.side is Side.HIGH_PROBABILITY for source in self.sources)
        side = Side.HIGH_PROBABILITY if likely and self.side is not None else self.side
        certain_to_fail = likely and provenance.delta == 1
        if side is None or self.side not in (Side.EXACT, safe_side(name)) or certain_to_fail:
            side = estimate_side(name)
        return Constant(name, self.value, side, provenance)


def sided(constant: Constant) -> SidedValue:
    """Return a constant as a term of a formula; high probability counts as the safe side, with its δ.

    Parameters
    ----------
    constant : Constant
        The constant.

    Returns
    -------
    SidedValue
        Its value and side.
    """
    nothing_known = constant.side is Side.HIGH_PROBABILITY and not constant.is_safe  # it has no safe side
    return SidedValue(constant.value, None if nothing_known else constant.stated_side, (constant,))


def _lifted(number: SidedValue | float) -> SidedValue:
    return number if isinstance(number, SidedValue) else SidedValue(number)


def _agreed(first: Side | None, second: Side | None) -> Side | None:
    """Return the side of a value that grows with two values: the side of the inexact one; None if they disagree."""
    if first is second or second is Side.EXACT:
        return first
    return second if first is Side.EXACT else None

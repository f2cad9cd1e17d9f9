"""Evaluate formulas in interval arithmetic. Every result contains the exact value; upper ends are rounded up."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp
from mpmath.ctx_iv import MPIntervalContext

from boundcheck.errors import AssumptionError
from boundcheck.theory.formula_tree import FormulaArithmetic, walk

Interval = Any  # an interval of `_IV`

_IV = MPIntervalContext()  # a separate context: the user may change the precision of the global mpmath.iv
_IV.prec = 160


class _Intervals(FormulaArithmetic):
    """Each operation returns an interval that contains its exact result."""

    def number(self, number: sp.Rational) -> Interval:
        return _IV.mpf(int(number.p)) / int(number.q)

    def product(self, coefficient: sp.Rational, factors: Sequence[Interval]) -> Interval:
        first = [] if coefficient == 1 else [self.number(coefficient)]
        return functools.reduce(lambda a, b: a * b, [*first, *factors])

    def power(self, base: Interval, exponent: sp.Rational | Interval) -> Interval:
        rational = isinstance(exponent, sp.Rational)
        if rational and exponent == sp.Rational(-1, 2):
            return 1 / _IV.sqrt(base)
        twice = 2 * (self.number(exponent) if rational else exponent)  # whole, or half an index as in (1−αμ)^{t/2}
        doubled = int(twice.mid)
        if not twice.a == twice.b == doubled:
            raise ValueError(f"no enclosure for the exponent {exponent}; only whole numbers and halves have one")
        if doubled % 2 == 0:
            return base ** (doubled // 2)
        if base.a < 0:
            raise AssumptionError(
                "a root of a number that may be negative, as 1 − αμ is for α > 1/μ; take a smaller step"
            )
        return _IV.sqrt(base**doubled)

    def geometric_sum(self, gap: Interval, n: Interval) -> Interval:
        return (1 - (1 - gap) ** int(n.mid)) / gap

    def largest(self, items: Sequence[Interval]) -> Interval:
        return _extremum(items, max)

    def smallest(self, items: Sequence[Interval]) -> Interval:
        return _extremum(items, min)

    def at_least(self, left: Interval, right: Interval) -> bool:
        return bool((left - right).a >= 0)


_INTERVALS = _Intervals()


def _extremum(items: Sequence[Interval], pick: Callable[..., Any]) -> Interval:
    return _IV.mpf([pick(item.a for item in items), pick(item.b for item in items)])


def interval(value: float) -> Interval:
    """The interval that contains exactly one double."""
    return _IV.mpf(float(value))


def enclose(expression: sp.Expr, values: Mapping[str, Interval]) -> Interval:
    """An interval that contains the value of `expression`; `values` are intervals by name."""
    return walk(expression, values, _INTERVALS)


def upper_end(enclosure: Interval) -> float:
    """The upper end of the interval, rounded up to a double."""
    top = enclosure.b
    nearest = float(top)
    if math.isinf(nearest) or _IV.mpf(nearest).a >= top:
        return nearest
    return math.nextafter(nearest, math.inf)


def evaluate_upwards(expression: sp.Expr, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Upper bounds on the exact values of `expression` at doubles.

    Parameters
    ----------
    expression : sympy.Expr
        The formula.
    values : mapping from str to array
        The symbols of `expression` by name; the arrays are broadcast together.

    Returns
    -------
    array of float64
        Upper bounds, each at least the exact value of `expression` at these doubles.
    """
    arrays = np.broadcast_arrays(*values.values()) if values else []
    shape = arrays[0].shape if arrays else ()
    result = np.empty(shape)
    for index in np.ndindex(shape):
        point = {name: interval(array[index]) for name, array in zip(values, arrays, strict=True)}
        result[index] = upper_end(enclose(expression, point))
    return result

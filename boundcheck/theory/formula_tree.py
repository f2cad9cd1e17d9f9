"""Evaluate a formula in a given arithmetic, which defines sums, powers and maxima.

There are three arithmetics: intervals (`intervals.py`), and the batches of doubles and the long decimals of the search
for worst cases (`worst_case/formula.py`).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from boundcheck.theory.geometric_sum import GeometricSum

Value = Any  # a number of the arithmetic; it has +, −, * and /


@functools.lru_cache(maxsize=4096)
def symbols_of(expression: sp.Expr) -> frozenset[sp.Symbol]:
    """The free symbols of a formula, cached; sympy walks through the formula every time."""
    return frozenset(expression.free_symbols)


class FormulaArithmetic(ABC):
    """The operations of an arithmetic, in addition to the operators of its values."""

    @abstractmethod
    def number(self, number: sp.Rational) -> Value:
        """The value of a number in a formula."""

    @abstractmethod
    def product(self, coefficient: sp.Rational, factors: Sequence[Value]) -> Value:
        """The product of `factors` and of the rational number in front of them."""

    @abstractmethod
    def power(self, base: Value, exponent: sp.Rational | Value) -> Value:
        """`base` to a power; `exponent` is a rational number of the formula or the value of an expression."""

    @abstractmethod
    def geometric_sum(self, gap: Value, n: Value) -> Value:
        """1 + x + … + x^(n−1) for x = 1 − gap."""

    @abstractmethod
    def largest(self, items: Sequence[Value]) -> Value:
        """The largest of `items`."""

    @abstractmethod
    def smallest(self, items: Sequence[Value]) -> Value:
        """The smallest of `items`."""

    @abstractmethod
    def at_least(self, left: Value, right: Value) -> bool:
        """Whether left ≥ right is certain; this is the condition of a branch."""


def walk(expression: sp.Expr, values: Mapping[str, Value], arithmetic: FormulaArithmetic) -> Value:
    """Evaluate a formula.

    Parameters
    ----------
    expression : sympy.Expr
        Sums, products, powers, maxima, minima, geometric sums, and branches with conditions of the form left ≥ right.
    values : mapping from str
        The value of every symbol in `expression`, by name.
    arithmetic : FormulaArithmetic
        The arithmetic to use.

    Returns
    -------
    value
        The value, in the type of `arithmetic`.

    Raises
    ------
    ValueError
        If a part of the formula has no rule here or in this arithmetic.
    """

    def value(part: sp.Expr) -> Value:
        return walk(part, values, arithmetic)

    match expression:
        case sp.Symbol():
            return values[expression.name]
        case sp.Rational():
            return arithmetic.number(expression)
        case sp.Add():
            return functools.reduce(lambda a, b: a + b, map(value, expression.args))
        case sp.Mul():
            coefficient, rest = expression.as_coeff_Mul()
            return arithmetic.product(coefficient, [value(factor) for factor in sp.Mul.make_args(rest)])
        case sp.Pow():
            exponent = expression.exp
            return arithmetic.power(
                value(expression.base), exponent if isinstance(exponent, sp.Rational) else value(exponent)
            )
        case GeometricSum():
            gap, n = expression.args
            return arithmetic.geometric_sum(value(gap), value(n))
        case sp.Max():
            return arithmetic.largest([value(item) for item in expression.args])
        case sp.Min():
            return arithmetic.smallest([value(item) for item in expression.args])
        case sp.Piecewise():
            return value(_branch(expression, values, arithmetic))
    raise ValueError(
        f"a formula with {expression.func.__name__} has no value here; add a rule to theory/formula_tree.py"
    )


def _branch(expression: sp.Piecewise, values: Mapping[str, Value], arithmetic: FormulaArithmetic) -> sp.Expr:
    """The first branch whose condition holds."""
    for branch, condition in expression.args:
        if condition == sp.true:
            return branch
        if not isinstance(condition, sp.GreaterThan):
            raise ValueError(f"the condition {condition} has no value here; write it as left ≥ right")
        if arithmetic.at_least(*(walk(side, values, arithmetic) for side in (condition.lhs, condition.rhs))):
            return branch
    raise ValueError(f"no branch of {expression} is certain to apply; end it with a branch for all else")

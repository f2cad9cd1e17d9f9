"""Evaluate formulas of the catalogue for the search: in batches of doubles in torch, or in 50 digits in mpmath."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from boundcheck.theory.bound import Bound
from boundcheck.theory.formula_tree import FormulaArithmetic, walk
from boundcheck.theory.rates import Rate
from boundcheck.theory.symbols import K, k, t
from boundcheck.worst_case.arithmetic import Arithmetic, Array


@dataclass(frozen=True, eq=False)
class _Batches(FormulaArithmetic):
    """Formulas in the arithmetic `ops`. t and k are already numbers, so every exponent is a number."""

    ops: Arithmetic

    def number(self, number: sp.Rational) -> int | float:
        p, q = int(number.p), int(number.q)
        return p if q == 1 else p / q

    def product(self, coefficient: sp.Rational, factors: Sequence[Array]) -> Array:
        """Return the product. The coefficient is applied as two integers, so that 1/3 is not rounded to a double."""
        product = functools.reduce(lambda a, b: a * b, factors)
        return product if coefficient == 1 else product * int(coefficient.p) / int(coefficient.q)

    def power(self, base: Array, exponent: sp.Rational | Array) -> Array:
        if isinstance(exponent, sp.Integer):
            return base ** int(exponent) if exponent >= 0 else 1 / base ** int(-exponent)
        if not (isinstance(exponent, sp.Rational) and exponent.q == 2):
            raise ValueError(f"no value for the exponent {exponent}; only whole numbers and halves have one")
        return self.power(self.ops.sqrt(base), 2 * exponent)

    def geometric_sum(self, gap: Array, n: int) -> Array:
        return (1 - (1 - gap) ** n) / gap

    def largest(self, items: Sequence[Array]) -> Array:
        return _extremum(items, self.ops.maximum)

    def smallest(self, items: Sequence[Array]) -> Array:
        return _extremum(items, self.ops.minimum)

    def at_least(self, left: Array, right: Array) -> bool:
        raise ValueError("a formula with branches has no value for a batch; take a bound without them")


def _extremum(items: Sequence[Array], pick: Callable[[Array, Array], Array]) -> Array:
    """Return the extremum of `items`. Numbers are first broadcast to the shape of the batch."""
    batch = next(item for item in items if not isinstance(item, int | float))
    return functools.reduce(pick, [item + 0 * batch for item in items])


def with_counts(expression: sp.Expr, steps: int, solves: int) -> sp.Expr:
    """Return `expression` at t = `steps` and k = K = `solves`."""
    return expression.subs({t: sp.Integer(steps), k: sp.Integer(solves), K: sp.Integer(solves)})


def value(expression: sp.Expr, values: Mapping[str, Array], ops: Arithmetic) -> Array:
    """Return the number, or the batch of numbers, of the expression at `values`."""
    return walk(expression, values, _Batches(ops))


def stated(bound: Bound, rates: tuple[Rate, ...], given: frozenset[str]) -> sp.Expr:
    """Return the right-hand side of a bound. Symbols not in `given` are replaced by their defaults or these rates."""
    return bound.resolved(given, rates)

"""A formula of the catalogue at numbers of any arithmetic: the tree is walked, so that nothing is written twice."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import sympy as sp

from boundcheck.theory.bound import Bound
from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.rates import Rate
from boundcheck.theory.symbols import K, k, t
from boundcheck.worst_case.arithmetic import Arithmetic, Array


def at(expression: sp.Expr, steps: int, solves: int) -> sp.Expr:
    """`expression` at t = `steps` and k = K = `solves`."""
    return expression.subs({t: sp.Integer(steps), k: sp.Integer(solves), K: sp.Integer(solves)})


def value(expression: sp.Expr, values: Mapping[str, Array], ops: Arithmetic) -> Array:
    """The number, or the batch of them, that the expression has at `values`."""
    if isinstance(expression, sp.Symbol):
        return values[expression.name]
    if isinstance(expression, sp.Integer):
        return int(expression)
    if isinstance(expression, sp.Rational):
        return int(expression.p) / int(expression.q)  # a lone one; factors are dealt with in `_product`
    if isinstance(expression, sp.Pow):
        return _power(value(expression.base, values, ops), expression.exp, ops)
    if isinstance(expression, GeometricSum):
        gap, n = (value(arg, values, ops) for arg in expression.args)
        return (1 - (1 - gap) ** n) / gap
    if isinstance(expression, sp.Mul):
        return _product(expression, values, ops)
    items = [value(arg, values, ops) for arg in expression.args]
    if isinstance(expression, sp.Add):
        return functools.reduce(lambda a, b: a + b, items)
    if isinstance(expression, sp.Max | sp.Min):
        pick = ops.maximum if isinstance(expression, sp.Max) else ops.minimum
        like = next(item for item in items if not isinstance(item, int | float))
        return functools.reduce(pick, [item + 0 * like for item in items])
    raise ValueError(f"no value for {expression.func.__name__}")


def _product(expression: sp.Mul, values: Mapping[str, Array], ops: Arithmetic) -> Array:
    """Its rational factor is applied as two integers, so that no arithmetic sees a rounded third."""
    factor, rest = expression.as_coeff_Mul()
    parts = [value(arg, values, ops) for arg in sp.Mul.make_args(rest)]
    made = functools.reduce(lambda a, b: a * b, parts)
    return made if factor == 1 else made * int(factor.p) / int(factor.q)


def _power(base: Any, exponent: sp.Expr, ops: Arithmetic) -> Array:
    if isinstance(exponent, sp.Integer):
        return base ** int(exponent) if exponent >= 0 else 1 / base ** int(-exponent)
    twice = 2 * exponent
    if not isinstance(twice, sp.Integer):
        raise ValueError(f"no value for the exponent {exponent}")
    return _power(ops.sqrt(base), twice, ops)


def stated(bound: Bound, rates: tuple[Rate, ...], given: frozenset[str]) -> sp.Expr:
    """The right-hand side of a bound with its defaults, or these rates, put in for all that is not given."""
    return bound.resolved(given, rates)

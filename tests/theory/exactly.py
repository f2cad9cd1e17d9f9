"""Reference values: a bound's expression in 60-digit arithmetic, independent of every evaluator of the library."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import mpmath
import sympy as sp

from boundcheck.theory.bound import Bound


def exactly(bound: Bound, values: Mapping[str, float], t: int = 0, k: int = 0, K: int | None = None) -> mpmath.mpf:
    """The bound at these doubles, correct to about 60 digits."""
    with mpmath.workdps(60):
        point = {name: mpmath.mpf(value) for name, value in values.items()}
        point |= {"t": mpmath.mpf(t), "k": mpmath.mpf(k), "K": mpmath.mpf(t if K is None else K)}
        if bound.recursion:
            recursion = bound.recursion.on_one_ball
            state = [_number(e, point) for e in recursion.start]
            for i in range(t):
                point |= {s.name: v for s, v in zip(recursion.state, state, strict=True)}
                state = [_number(e, point) for e in (recursion.step if i else recursion.first)]
            point |= {s.name: v for s, v in zip(recursion.state, state, strict=True)}
        return _number(bound.resolved(frozenset(point)).doit(), point)


def _number(expression: sp.Expr, point: Mapping[str, mpmath.mpf]) -> mpmath.mpf:
    names, function = _compiled(expression)
    return mpmath.mpf(function(*(point[name] for name in names)))


@functools.cache
def _compiled(expression: sp.Expr) -> tuple[tuple[str, ...], Callable[..., mpmath.mpf]]:
    symbols = sorted(expression.free_symbols, key=str)
    return tuple(symbol.name for symbol in symbols), sp.lambdify(symbols, expression, "mpmath")

"""Evaluate expressions on arrays in double precision; `intervals.py` evaluates them rigorously."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from boundcheck.side import Side
from boundcheck.theory.formula_tree import symbols_of
from boundcheck.theory.intervals import evaluate_upwards
from boundcheck.theory.symbols import INDEX_NAMES


@dataclass(frozen=True)
class BoundValues:
    """Values of a bound, with their side.

    Attributes
    ----------
    values : ndarray
        The values, of the shape to which t, k and the other arrays broadcast.
    side : Side
        EXACT or UPPER: at least the bound at the true constants. HIGH_PROBABILITY: the same with probability at least
        1 − `delta`. LOWER: not a bound, because the constants in `weakest` may be on their unsafe side.
    delta : float
        The probability that the values are too small; 0 by default.
    weakest : tuple of str
        The least certain constants, which decide the side; none by default.
    rigorous : bool
        Whether the values were computed in interval arithmetic and rounded up; False by default.
    """

    values: np.ndarray
    side: Side
    delta: float = 0.0
    weakest: tuple[str, ...] = ()
    rigorous: bool = False


def geometric_sum(gap: Any, n: Any) -> Any:
    """1 + x + … + x^(n−1) for x = 1 − gap, 0 < gap ≤ 1, without cancellation as x → 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap < 1, -np.expm1(n * np.log1p(-np.asarray(gap))) / gap, np.minimum(n, 1.0))


def _amax(items: tuple[Any, ...], axis: int = 0) -> Any:
    """The maximum of scalars and arrays; sympy prints Max as numpy's amax, which cannot mix them."""
    return functools.reduce(np.maximum, items)


def _amin(items: tuple[Any, ...], axis: int = 0) -> Any:
    return functools.reduce(np.minimum, items)


_NUMPY = {"amax": _amax, "amin": _amin, "GeometricSum": geometric_sum}


@functools.lru_cache(maxsize=2048)
def compiled(expression: sp.Expr, names: tuple[str, ...]) -> Callable[..., Any]:
    """Compile `expression` to a numpy function of its symbols in the order of `names`; cached."""
    by_name = {symbol.name: symbol for symbol in expression.free_symbols}
    arguments = [by_name.get(name, sp.Dummy(name)) for name in names]
    function: Callable[..., Any] = sp.lambdify(arguments, expression, modules=[_NUMPY, "numpy"], cse=True)
    return function


@functools.lru_cache(maxsize=1024)
def compiled_scalars(expressions: tuple[sp.Expr, ...], names: tuple[str, ...]) -> Callable[..., list[float]]:
    """Compile several expressions to one function of floats, for loops in which numpy would be slow."""
    by_name = {symbol.name: symbol for expression in expressions for symbol in expression.free_symbols}
    arguments = [by_name.get(name, sp.Dummy(name)) for name in names]
    function: Callable[..., list[float]] = sp.lambdify(arguments, list(expressions), modules="math", cse=True)
    return function


def evaluate(expression: sp.Expr, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Evaluate `expression` at `values`, which broadcast, in float64.

    If an intermediate result overflows or underflows (a huge constant times an underflowed power), the point is
    computed again with a wider range of exponents.
    """
    names = tuple(sorted(symbol.name for symbol in symbols_of(expression)))
    shape = np.broadcast_shapes(*(np.shape(value) for value in values.values()))
    function = compiled(expression, names)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        raw = function(*(values[name] for name in names))
    result = np.array(np.broadcast_to(raw, shape), dtype=float)
    doubtful = np.asarray(~np.isfinite(result))
    if any(np.size(value) and np.max(value) > HUGE for name, value in values.items() if name not in INDEX_NAMES):
        doubtful |= result < TINY
    for name in names:
        finite = np.isfinite(values[name])
        if not finite.all():  # a recursion overflowed: a wider range of exponents does not help
            result = np.where(finite, result, np.inf)
            doubtful = doubtful & finite
    if names and doubtful.any():
        points = {name: np.broadcast_to(values[name], shape)[doubtful] for name in names}
        result[doubtful] = _evaluate_wide(expression, function, points)
    return result


# a dozen constants below HUGE times the cube of t cannot lift an underflowed power above TINY
HUGE, TINY = 1e6, 1e-200


def _evaluate_wide(expression: sp.Expr, function: Callable[..., Any], points: Mapping[str, np.ndarray]) -> np.ndarray:
    """Evaluate in extended precision if the platform has it; otherwise, and where that fails, in intervals."""
    count = next(iter(points.values())).size
    result = np.full(count, np.nan)
    if np.finfo(np.longdouble).maxexp > np.finfo(float).maxexp:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            wide = function(*(value.astype(np.longdouble) for value in points.values()))
            result[:] = np.where(np.isfinite(wide), wide, np.nan)
    left = np.isnan(result)
    if left.any():
        result[left] = evaluate_upwards(expression, {name: value[left] for name, value in points.items()})
    return result

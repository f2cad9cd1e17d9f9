"""Numbers from expressions, in double precision over arrays; `intervals.py` computes them with a guarantee."""

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
        EXACT or UPPER: no smaller than the bound at the true constants. HIGH_PROBABILITY: so with probability at least
        1 − `delta`. LOWER: nothing is known, as the constants in `weakest` may be on their unsafe side.
    delta : float
        The probability that the values are too small; 0 by default.
    weakest : tuple of str
        The constants that decide the side, as they are the least certain; none by default.
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
    """sympy prints Max as amax over a tuple, which cannot mix scalars and arrays."""
    return functools.reduce(np.maximum, items)


def _amin(items: tuple[Any, ...], axis: int = 0) -> Any:
    return functools.reduce(np.minimum, items)


_NUMPY = {"amax": _amax, "amin": _amin, "GeometricSum": geometric_sum}


@functools.lru_cache(maxsize=2048)
def compiled(expression: sp.Expr, names: tuple[str, ...]) -> Callable[..., Any]:
    """`expression` as a numpy function of its symbols in the order of `names`; compiled once."""
    by_name = {symbol.name: symbol for symbol in expression.free_symbols}
    arguments = [by_name.get(name, sp.Dummy(name)) for name in names]
    function: Callable[..., Any] = sp.lambdify(arguments, expression, modules=[_NUMPY, "numpy"], cse=True)
    return function


@functools.lru_cache(maxsize=1024)
def compiled_scalars(expressions: tuple[sp.Expr, ...], names: tuple[str, ...]) -> Callable[..., list[float]]:
    """Several expressions as one function of floats, for loops that numpy would slow down."""
    by_name = {symbol.name: symbol for expression in expressions for symbol in expression.free_symbols}
    arguments = [by_name.get(name, sp.Dummy(name)) for name in names]
    function: Callable[..., list[float]] = sp.lambdify(arguments, list(expressions), modules="math", cse=True)
    return function


def evaluate(expression: sp.Expr, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """`expression` at `values`, broadcast together, as float64.

    Where double precision overflows or underflows on the way to a number it could hold (a huge constant times an
    underflowed power), the point is computed again with a wider range of exponents.
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


# a dozen constants below HUGE and a cube of t cannot together lift an underflowed power above TINY
HUGE, TINY = 1e6, 1e-200


def _evaluate_wide(expression: sp.Expr, function: Callable[..., Any], points: Mapping[str, np.ndarray]) -> np.ndarray:
    """In extended precision where the platform has its range of exponents, else (and where that fails) in intervals."""
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

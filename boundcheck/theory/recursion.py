"""Bounds that have no closed form in t: a state carried from step to step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from boundcheck.theory.evaluation import compiled_scalars
from boundcheck.theory.intervals import enclose, interval, upper_end
from boundcheck.theory.symbols import INDEX_NAMES

LONGEST = 2_000_000
LONGEST_IN_INTERVALS = 10_000


@dataclass(frozen=True)
class Recursion:
    """State symbols that a formula contains and that only a recursion over t gives.

    `start` is the state at t = 0; `first` takes it to t = 1, `step` from any later t to t + 1.
    """

    state: tuple[sp.Symbol, ...]
    start: tuple[sp.Expr, ...]
    first: tuple[sp.Expr, ...]
    step: tuple[sp.Expr, ...]

    @property
    def free_symbols(self) -> frozenset[sp.Symbol]:
        return frozenset().union(*(e.free_symbols for e in (*self.start, *self.first, *self.step)))

    def run(self, arrays: Mapping[str, np.ndarray], *, rigorous: bool) -> dict[str, np.ndarray]:
        """The state at every t asked for, by running the recursion once up to the largest.

        With `rigorous` the state is carried in intervals, and what is returned are their upper ends: the formulas of
        recursive bounds grow with the state, so they stay upper bounds.
        """
        state = tuple(symbol.name for symbol in self.state)
        fixed = {name: float(array) for name, array in arrays.items() if array.ndim == 0 and name not in INDEX_NAMES}
        advance = (_advance_intervals if rigorous else _advance_floats)(fixed, state)
        values = advance(self.start, [0.0] * len(state))
        history = [[upper_end(value) for value in values] if rigorous else values]
        for i in range(int(arrays["t"].max(initial=0))):
            values = advance(self.step if i else self.first, values)
            recorded = [upper_end(value) for value in values] if rigorous else values
            if i and not rigorous and recorded == history[-1]:  # a fixed point in double precision
                break
            history.append(recorded)
        table = np.array(history)
        if not rigorous and len(history) <= LONGEST_IN_INTERVALS and not np.isfinite(table).all():
            return self.run(arrays, rigorous=True)  # overflow: intervals have a wider range of exponents
        at = np.minimum(arrays["t"].astype(int), len(history) - 1)
        return {name: table[at, column] for column, name in enumerate(state)}


Advance = Callable[[tuple[sp.Expr, ...], list[Any]], list[Any]]


def _advance_floats(fixed: Mapping[str, float], state: tuple[str, ...]) -> Advance:
    names, numbers = (*fixed, *state), tuple(fixed.values())
    return lambda expressions, values: compiled_scalars(expressions, names)(*numbers, *values)


def _advance_intervals(fixed: Mapping[str, float], state: tuple[str, ...]) -> Advance:
    thin = {name: interval(value) for name, value in fixed.items()}

    def advance(expressions: tuple[sp.Expr, ...], values: list[Any]) -> list[Any]:
        point = {**thin, **dict(zip(state, values, strict=True))}
        return [enclose(expression, point) for expression in expressions]

    return advance

"""Recursions over t, for bounds without a closed form in t."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy as sp

from boundcheck.constants import Constant
from boundcheck.theory.evaluation import compiled_scalars
from boundcheck.theory.formula_tree import symbols_of
from boundcheck.theory.intervals import enclose, interval, upper_end
from boundcheck.theory.shells import Shell, Table, place, shells_of
from boundcheck.theory.symbols import INDEX_NAMES

LONGEST_RECURSION = 2_000_000
LONGEST_IN_INTERVALS = 10_000
NO_TABLES: Mapping[str, Table] = MappingProxyType({})


@dataclass(frozen=True)
class Shrinking:
    """The symbols of a recursion that takes its constants from the smallest ball around w* that contains w_t.

    Attributes
    ----------
    radius : sympy.Symbol
        The state that bounds ‖w_t − w*‖. Its step may depend on itself and on constants only.
    inner : sympy.Symbol
        The radius of the next smaller ball.
    reach : sympy.Symbol
        The value of `radius` after one step from `inner`.
    factor : sympy.Symbol
        The factor by which a step brings every point of the ball closer to w*, from `Constant.towards`.
    slope : sympy.Symbol
        The constant that has the table of `factor`, and that replaces `factor` if there is no table.
    """

    radius: sp.Symbol
    inner: sp.Symbol
    reach: sp.Symbol
    factor: sp.Symbol
    slope: sp.Symbol

    def tables(self, constants: Iterable[Constant]) -> dict[str, Table]:
        """The tables of these constants, by the name of the symbol whose values they contain."""
        tables = {}
        for constant in constants:
            if constant.on_smaller:
                tables[constant.name] = constant.on_smaller
            if constant.towards and constant.name == self.slope.name:
                tables[self.factor.name] = constant.towards
        return tables


Tracks = dict[Any, "_Track"]  # by constants


@dataclass(frozen=True)
class Recursion:
    """A recursion over t that computes the state symbols of a formula.

    `start` is the state at t = 0. `first` computes the state at t = 1, and `step` every later state. With `shrinking`,
    each step and the formula take their constants from the smallest ball that contains w_t, and must grow with the
    state.
    """

    state: tuple[sp.Symbol, ...]
    start: tuple[sp.Expr, ...]
    first: tuple[sp.Expr, ...]
    step: tuple[sp.Expr, ...]
    shrinking: Shrinking | None = None

    @property
    def free_symbols(self) -> frozenset[sp.Symbol]:
        """The symbols of the recursion: its inputs and its state."""
        one = self.on_one_ball
        return frozenset().union(*(symbols_of(e) for e in (*one.start, *one.first, *one.step)))

    @cached_property
    def on_one_ball(self) -> Recursion:
        """The same recursion with one ball for all radii."""
        if self.shrinking is None:
            return self
        none = {self.shrinking.inner: 0, self.shrinking.reach: 0, self.shrinking.factor: self.shrinking.slope}
        first, step = (tuple(e.subs(none) for e in part) for part in (self.first, self.step))
        return replace(self, first=first, step=step, shrinking=None)

    def run(
        self, arrays: Mapping[str, np.ndarray], *, rigorous: bool, tables: Mapping[str, Table] = NO_TABLES,
        tracks: Tracks | None = None,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Run the recursion once up to the largest t, and return the state at every t.

        With `rigorous` the state is computed in intervals, and the result contains their upper ends. The formulas of
        recursive bounds grow with the state, so their values at these ends are upper bounds.

        Parameters
        ----------
        arrays : mapping from str to ndarray
            The constants, and t.
        rigorous : bool
            Whether to compute in intervals.
        tables : mapping from str to tuple of (float, float)
            The values of some constants on smaller balls, from `Shrinking.tables`, for a recursion with `shrinking`;
            none by default.
        tracks : dict, optional
            The runs so far. A run with the same constants goes on where the last one ended.

        Returns
        -------
        dict from str to ndarray
            The state at each t, and the constants of `tables` there.
        """
        fixed = {name: float(array) for name, array in arrays.items() if array.ndim == 0 and name not in INDEX_NAMES}
        if self.shrinking is None:
            tables = NO_TABLES
        else:
            fixed[self.shrinking.factor.name] = fixed[self.shrinking.slope.name]
        key = (rigorous, tuple(fixed.items()), tuple(tables.items()))
        track = None if tracks is None else tracks.get(key)
        if track is None:
            track = _Track.start(self, (_InIntervals if rigorous else _InFloats)(self, fixed, shells_of(fixed, tables)))
        if tracks is not None:
            tracks[key] = track
        last = int(arrays["t"].max(initial=0))
        track.extend(last, stop_when_fixed=not rigorous)
        history, places, walk = track.history[: last + 1], track.places[: last + 1], track.walk
        table = np.array(history)
        if not rigorous and len(history) <= LONGEST_IN_INTERVALS and not np.isfinite(table).all():
            return self.run(arrays, rigorous=True, tables=tables)  # overflow: intervals have a larger exponent range
        row = np.minimum(arrays["t"].astype(int), len(history) - 1)
        state = {symbol.name: table[row, column] for column, symbol in enumerate(self.state)}
        shells = np.array(places)[row]
        named = (name for name in tables if name in arrays)
        return state | {name: np.array([shell.constants[name] for shell in walk.shells])[shells] for name in named}


@dataclass(eq=False)
class _Track:
    """The states of one run of a recursion so far, and the shells that contain them."""

    recursion: Recursion
    walk: _Walk
    values: list[Any]  # the last state, as numbers of the arithmetic
    history: list[list[float]]
    places: list[int]
    is_fixed: bool = False  # whether the state no longer changes

    @classmethod
    def start(cls, recursion: Recursion, walk: _Walk) -> _Track:
        """The run at t = 0."""
        values = walk.values(recursion.start, [0.0] * len(recursion.state), 0)
        return cls(recursion, walk, values, [walk.upper_ends(values)], [walk.place(values)])

    def extend(self, t: int, *, stop_when_fixed: bool) -> None:
        """Go on up to t."""
        for i in range(len(self.history) - 1, t):
            if self.is_fixed:
                return
            step = self.recursion.step if i else self.recursion.first
            self.values = self.walk.values(step, self.values, self.places[-1])
            recorded = self.walk.upper_ends(self.values)
            if i and stop_when_fixed and recorded == self.history[-1]:  # a fixed point in double precision
                self.is_fixed = True
                return
            self.history.append(recorded)
            self.places.append(self.walk.place(self.values))


class _Walk(ABC):
    """A run of a recursion in one arithmetic, with the constants of every shell as numbers of that arithmetic."""

    def __init__(self, recursion: Recursion, fixed: Mapping[str, float], shells: tuple[Shell, ...]) -> None:
        self.state = tuple(symbol.name for symbol in recursion.state)
        self.shells = shells
        self.constants: list[dict[str, Any]] = [{}] * len(shells)
        self.column = 0
        shrinking = recursion.shrinking
        if shrinking is not None:
            self.column = self.state.index(shrinking.radius.name)
        for number in reversed(range(len(shells))):  # smallest ball first: the next ball needs its step
            constants = {name: self.number(value) for name, value in {**fixed, **shells[number].constants}.items()}
            if shrinking is not None:
                constants[shrinking.inner.name] = self.number(shells[number].inner)
                constants[shrinking.reach.name] = self._reach(recursion, number)
            self.constants[number] = constants

    def _reach(self, recursion: Recursion, number: int) -> Any:
        """The radius after one step from the next smaller ball's radius, with the constants of that ball."""
        if number == len(self.shells) - 1:
            return self.number(0.0)
        from_there = [self.number(0.0)] * len(self.state)
        from_there[self.column] = self.number(self.shells[number].inner)
        return self.values(recursion.step, from_there, number + 1)[self.column]

    def place(self, values: list[Any]) -> int:
        """The number of the shell that contains a state."""
        return place(self.shells, self.upper_ends(values)[self.column]) if len(self.shells) > 1 else 0

    @abstractmethod
    def number(self, value: float) -> Any:
        """A constant as a number of this arithmetic."""

    @abstractmethod
    def values(self, expressions: tuple[sp.Expr, ...], state: list[Any], number: int) -> list[Any]:
        """Evaluate expressions at a state, with the constants of a shell."""

    @abstractmethod
    def upper_ends(self, values: list[Any]) -> list[float]:
        """Upper bounds on the values, as floats."""


class _InFloats(_Walk):
    @cached_property
    def functions(self) -> dict[tuple[int, int], Callable[..., list[float]]]:
        """Compiled expressions of the recursion, which outlives this walk, with the constants of a shell."""
        return {}

    def number(self, value: float) -> Any:
        return value

    def values(self, expressions: tuple[sp.Expr, ...], state: list[Any], number: int) -> list[Any]:
        constants = self.constants[number]
        key = id(expressions), number
        if key not in self.functions:
            self.functions[key] = compiled_scalars(expressions, (*constants, *self.state))
        return self.functions[key](*constants.values(), *state)

    def upper_ends(self, values: list[Any]) -> list[float]:
        return values


class _InIntervals(_Walk):
    def number(self, value: float) -> Any:
        return interval(value)

    def values(self, expressions: tuple[sp.Expr, ...], state: list[Any], number: int) -> list[Any]:
        point = {**self.constants[number], **dict(zip(self.state, state, strict=True))}
        return [enclose(expression, point) for expression in expressions]

    def upper_ends(self, values: list[Any]) -> list[float]:
        return [upper_end(value) for value in values]

"""One evaluation of a bound with checked inputs: its values with their side, and the conditions of the theorem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from boundcheck.constants import Constant, Constants
from boundcheck.errors import AssumptionError, MissingConstantError
from boundcheck.theory.evaluation import BoundValues, evaluate
from boundcheck.theory.formula_tree import symbols_of
from boundcheck.theory.intervals import evaluate_upwards
from boundcheck.theory.rates import Rate
from boundcheck.theory.recursion import Tracks
from boundcheck.theory.sides import combine
from boundcheck.theory.symbols import INDEX_NAMES, QUANTITIES, t

if TYPE_CHECKING:
    from boundcheck.theory.bound import Bound
    from boundcheck.theory.condition import Condition


@dataclass(frozen=True)
class Call:
    """A bound with checked inputs: `arrays` by name, and in `used` the constants among them with their sides."""

    bound: Bound
    expression: sp.Expr
    arrays: Mapping[str, np.ndarray]
    used: tuple[Constant, ...]
    rates: tuple[Rate, ...]

    def with_constants(self, constants: Constants) -> Call:
        """The same evaluation with other values of the same constants."""
        refuse_missing(self.bound, [c.name for c in self.used if c.name not in constants], constants)
        used = tuple(constants[constant.name] for constant in self.used)
        for constant in used:
            QUANTITIES[constant.name].check(constant.value, constant.side)
        numbers = {constant.name: np.asarray(constant.value) for constant in used}
        return replace(self, arrays=MappingProxyType({**self.arrays, **numbers}), used=used)

    def values(self, *, rigorous: bool = False, check: bool = True, tracks: Tracks | None = None) -> BoundValues:
        """The values with their side; `check=False` does not check the conditions of the theorem.

        `tracks` keeps the runs of the recursion for later calls.
        """
        if check:
            self.check_conditions()
        compute = evaluate_upwards if rigorous else evaluate
        needed = {symbol.name for symbol in symbols_of(self.expression)}
        arrays = dict(self.arrays)
        arrays |= self.state(rigorous=rigorous, tracks=tracks)
        # keep every index: the result has the shape of t and k
        arrays = {name: array for name, array in arrays.items() if name in needed or name in INDEX_NAMES}
        side = combine((constant, self.bound.direction(constant.name)) for constant in self.used)
        return BoundValues(compute(self.expression, arrays), side.side, side.delta, side.weakest, rigorous)

    def state(self, *, rigorous: bool = False, tracks: Tracks | None = None) -> dict[str, np.ndarray]:
        """The state of the recursion at every t, with the constants that hold there; empty without a recursion."""
        recursion = self.bound.recursion
        if recursion is None:
            return {}
        tables = {} if recursion.shrinking is None else recursion.shrinking.tables(self.used)
        return recursion.run(self.arrays, rigorous=rigorous, tables=tables, tracks=tracks)

    def satisfied(self, number: int) -> np.ndarray:
        """Whether the condition with this number holds, at each point."""
        condition = self.bound.conditions[number]
        left, right = (self._side(expression) for expression in (condition.left, condition.right))
        return left < right if condition.strict else left <= right

    def check_conditions(self, *, of_iterations: bool = True) -> None:
        """Raise AssumptionError at the first point where a condition of the theorem fails.

        Without `of_iterations`, conditions on t, on k or on what the recursion gives are left out.
        """
        for number, condition in enumerate(self.bound.conditions):
            if not of_iterations and self._depends_on_iterations(condition):
                continue
            failing = np.atleast_1d(~self.satisfied(number))
            if failing.any():
                raise AssumptionError(self._failure(condition, failing))

    def _failure(self, condition: Condition, failing: np.ndarray) -> str:
        """The message about the first point where a condition fails: values and remedy."""
        never = failing.size > 1 and bool(failing.all())  # then report the last t
        point = tuple(np.argwhere(failing)[-1 if never else 0])
        left, right = (
            np.atleast_1d(np.broadcast_to(self._side(side), failing.shape))[point]
            for side in (condition.left, condition.right)
        )
        ts = self.arrays.get("t", np.asarray(0))
        where = f" at t = {ts[point]:g}" if ts.shape == failing.shape and self._varies(condition) else ""
        if never and np.ptp(self._side(condition.left)) == np.ptp(self._side(condition.right)) == 0:
            where = ""  # t does not matter
        sign = "≥" if condition.strict else ">"
        limit = f"{condition.right}{'' if condition.right.is_number else f' = {right:g}'}"
        return f"{self.bound.name}: {condition.left} = {left:g} {sign} {limit}{where}; {condition.remedy}"

    def _depends_on_iterations(self, condition: Condition) -> bool:
        known = frozenset(self.arrays)
        sides = (self.bound.substitute(x, known, self.rates) for x in (condition.left, condition.right))
        names = {symbol.name for side in sides for symbol in symbols_of(side)}
        return bool(names & set(INDEX_NAMES)) or not names <= known

    def _varies(self, condition: Condition) -> bool:
        """Whether a condition has different values at different points. The message contains t itself already."""
        known = frozenset(self.arrays)
        sides = (self.bound.substitute(x, known, self.rates) for x in (condition.left, condition.right))
        names = {symbol.name for side in sides for symbol in symbols_of(side)}
        return condition.right != t and any(self.arrays[name].ndim for name in names if name in self.arrays)

    def _side(self, expression: sp.Expr) -> np.ndarray:
        resolved = self.bound.substitute(expression, frozenset(self.arrays), self.rates)
        return evaluate(resolved, self.arrays)


def refuse_missing(bound: Bound, missing: list[str], constants: Constants) -> None:
    """Raise MissingConstantError with the names and meanings of all missing symbols, if there are any."""
    if not missing:
        return
    listed = ", ".join(f"{name} ({QUANTITIES[name].meaning})" for name in missing)
    stray = [name for name in constants if name not in QUANTITIES]
    hint = f"; {stray[0]!r} is not a symbol of boundcheck" if stray else ""
    raise MissingConstantError(f"{bound.name} needs {listed}; give {missing[0]}=…{hint}", missing)

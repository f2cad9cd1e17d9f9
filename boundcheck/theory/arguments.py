"""One evaluation of a bound: the inputs gathered from where they come, checked, and turned into values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from boundcheck.constants import Constant, Constants
from boundcheck.errors import AssumptionError, InputError, MissingConstantError, UnknownNameError
from boundcheck.theory.evaluation import BoundValues, evaluate
from boundcheck.theory.intervals import evaluate_upwards
from boundcheck.theory.rates import Rate, rate
from boundcheck.theory.recursion import LONGEST
from boundcheck.theory.sides import combine
from boundcheck.theory.symbols import INDEX_NAMES, QUANTITIES, t

if TYPE_CHECKING:
    from boundcheck.theory.bound import Bound

RATE_NAMES = ("rho", "sigma")
LARGEST_INDEX = 2**53


@dataclass(frozen=True)
class Call:
    """A bound with checked inputs: arrays by name, and the constants among them with their sides."""

    bound: Bound
    expression: sp.Expr
    arrays: Mapping[str, np.ndarray]
    used: tuple[Constant, ...]
    rates: tuple[Rate, ...]

    def with_constants(self, constants: Constants) -> Call:
        """The same evaluation at other constants of the same names."""
        _refuse_missing(self.bound, [c.name for c in self.used if c.name not in constants], constants)
        used = tuple(constants[constant.name] for constant in self.used)
        for constant in used:
            QUANTITIES[constant.name].check(constant.value)
        numbers = {constant.name: np.asarray(constant.value) for constant in used}
        return replace(self, arrays=MappingProxyType({**self.arrays, **numbers}), used=used)

    def values(self, *, rigorous: bool = False, check: bool = True) -> BoundValues:
        """The values with their side; `check=False` leaves out the conditions of the theorem."""
        if check:
            self.check_conditions()
        compute = evaluate_upwards if rigorous else evaluate
        needed = {symbol.name for symbol in self.expression.free_symbols}
        arrays = dict(self.arrays)
        if self.bound.recursion:
            arrays |= self.bound.recursion.run(arrays, rigorous=rigorous)
        # every index is kept, so that the shape of t and k is the shape of the answer
        arrays = {name: array for name, array in arrays.items() if name in needed or name in INDEX_NAMES}
        side = combine((constant, self.bound.direction(constant.name)) for constant in self.used)
        return BoundValues(compute(self.expression, arrays), side.side, side.delta, side.weakest, rigorous)

    def satisfied(self, at: int) -> np.ndarray:
        """Where the condition number `at` of the theorem holds."""
        condition = self.bound.conditions[at]
        left, right = (self._side(expression) for expression in (condition.left, condition.right))
        return left < right if condition.strict else left <= right

    def check_conditions(self) -> None:
        for number, condition in enumerate(self.bound.conditions):
            failing = np.atleast_1d(~self.satisfied(number))
            if failing.any():
                at = tuple(np.argwhere(failing)[0])
                left, right = (
                    np.atleast_1d(np.broadcast_to(self._side(e), failing.shape))[at]
                    for e in (condition.left, condition.right)
                )
                ts = self.arrays.get("t", np.asarray(0))
                where = f" at t = {ts[at]:g}" if ts.shape == failing.shape and condition.right != t else ""
                sign = "≥" if condition.strict else ">"
                raise AssumptionError(
                    f"{self.bound.name}: {condition.left} = {left:g} {sign} {condition.right}"
                    f"{'' if condition.right.is_number else f' = {right:g}'}{where}; {condition.remedy}"
                )

    def _side(self, expression: sp.Expr) -> np.ndarray:
        resolved = self.bound.substitute(expression, frozenset(self.arrays), self.rates)
        return evaluate(resolved, self.arrays)


def _real_array(value: Any) -> np.ndarray:
    if np.iscomplexobj(value):
        raise TypeError("complex")
    return np.asarray(value, dtype=float)


def count(name: str, value: Any, low: int = 0, holds: str = "it") -> np.ndarray:
    """`value` as an array of whole numbers from `low` on."""
    try:
        array = _real_array(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {value!r} is not a whole number; give 0, 1, 2, … or a list of them") from None
    whole = np.isfinite(array) & (array == np.floor(array))
    if not whole.all():
        raise InputError(f"{name} = {array[~whole].flat[0]:g} is not a whole number; give 0, 1, 2, …")
    if array.size and array.max() > LARGEST_INDEX:
        raise InputError(f"{name} = {array.max():g} is more than a double counts exactly; give at most 2^53")
    if array.size and array.min() < low:
        raise InputError(f"{name} = {array.min():g} < {low}; {holds} holds for {name} ≥ {low}")
    return array


def _index(bound: Bound, name: str, value: Any) -> np.ndarray:
    return count(name, value, bound.t_min if name == "t" else 0, bound.name)


def _observed(name: str, value: Any) -> np.ndarray:
    try:
        array = _real_array(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {value!r} is not a number; give a number or an array of them") from None
    quantity = QUANTITIES[name]
    for extreme in (array.min(initial=np.inf), array.max(initial=-np.inf)) if array.size else ():
        quantity.check(float(extreme))
    return array


def _as_constants(constants: Any) -> Constants:
    if not isinstance(constants, Mapping) or not all(isinstance(name, str) for name in constants):
        raise InputError(f"constants = {constants!r} is no mapping from names; use Constants.given(q=0.9, …) or a dict")
    return Constants({n: c if isinstance(c, Constant) else Constant(n, c) for n, c in constants.items()})


def prepare(bound: Bound, constants: Constants | Mapping[str, Any], given: Mapping[str, Any]) -> Call:
    """Gather the inputs of `bound`, refuse what is missing or out of its domain, and fill in the defaults."""
    if not isinstance(constants, Constants):
        constants = _as_constants(constants)
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in QUANTITIES:
            raise UnknownNameError.among("symbol", name, QUANTITIES)
    named = {name: value for name, value in given.items() if name in RATE_NAMES and isinstance(value, str | Rate)}
    rates = tuple(
        rate(value if isinstance(value, str) else value.name, QUANTITIES[name].symbol) for name, value in named.items()
    )
    if rates and not bound.takes_rates:
        raise InputError(f"{bound.name}: {rates[0].name!r} is a Euclidean rate; give {next(iter(named))} as numbers")
    typed = _as_constants({name: value for name, value in given.items() if isinstance(value, Constant)})
    constants = constants.replace(*typed.values())
    arrays = {
        name: _index(bound, name, value) if name in INDEX_NAMES else _observed(name, value)
        for name, value in given.items()
        if name not in typed and name not in named
    }
    if bound.recursion and (state := [x.name for x in bound.recursion.state if x.name in {*constants, *arrays}]):
        raise InputError(f"{bound.name} computes {state[0]} by its recursion; leave {state[0]} out")
    available = frozenset(constants) | frozenset(arrays)
    expression = bound.resolved(available, rates)
    needed = set(expression.free_symbols) | (bound.in_conditions - {rate.stands_for for rate in rates})
    if bound.recursion:
        needed = (needed | bound.recursion.free_symbols) - set(bound.recursion.state)
    names = [name for name, quantity in QUANTITIES.items() if quantity.symbol in needed]
    if bound.recursion and "t" not in names:
        names.append("t")
    if "k" in names and "k" not in arrays and "t" in arrays:
        arrays["k"] = arrays["t"]  # the paper's choice when nothing else is said
    used = tuple(constants[name] for name in names if name in constants and name not in arrays)
    for constant in used:
        QUANTITIES[constant.name].check(constant.value)
    arrays |= {c.name: _index(bound, c.name, c.value) if c.name in INDEX_NAMES else np.asarray(c.value) for c in used}
    _refuse_missing(bound, [name for name in names if name not in arrays], constants)
    _refuse_shapes(bound, {name: array for name, array in arrays.items() if name in names})
    measured = tuple(constant for constant in used if constant.name not in INDEX_NAMES)
    return Call(bound, expression, MappingProxyType(arrays), measured, rates)


def _refuse_shapes(bound: Bound, arrays: Mapping[str, np.ndarray]) -> None:
    shapes = {name: array.shape for name, array in arrays.items() if array.ndim}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"{bound.name}: shapes do not fit together: {listed}; give arrays that broadcast") from None
    if bound.recursion:
        if wrong := [name for name in shapes if name not in INDEX_NAMES]:
            raise InputError(
                f"{bound.name}: {wrong[0]} has shape {shapes[wrong[0]]}; a recursion takes one number for it"
            )
        if arrays["t"].max(initial=0) > LONGEST:
            raise InputError(f"{bound.name}: t = {arrays['t'].max():g} is too long for a recursion; give t ≤ {LONGEST}")


def _refuse_missing(bound: Bound, missing: list[str], constants: Constants) -> None:
    if not missing:
        return
    listed = ", ".join(f"{name} ({QUANTITIES[name].meaning})" for name in missing)
    stray = [name for name in constants if name not in QUANTITIES]
    hint = f"; {stray[0]!r} is no symbol of boundcheck" if stray else ""
    raise MissingConstantError(f"{bound.name} needs {listed}; give {missing[0]}=…{hint}")

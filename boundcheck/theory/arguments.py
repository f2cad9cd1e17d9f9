"""Gather, resolve and check the inputs of one evaluation of a bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from boundcheck.constants import Constant, Constants
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.theory.call import Call, refuse_missing
from boundcheck.theory.formula_tree import symbols_of
from boundcheck.theory.rates import Rate, rate
from boundcheck.theory.recursion import LONGEST_RECURSION
from boundcheck.theory.symbols import INDEX_NAMES, QUANTITIES

if TYPE_CHECKING:
    from boundcheck.theory.bound import Bound

RATE_NAMES = ("rho", "sigma")
LARGEST_INDEX = 2**53


def prepare(bound: Bound, constants: Constants | Mapping[str, Any], given: Mapping[str, Any]) -> Call:
    """Prepare one evaluation of a bound: gather the inputs, insert defaults, check that nothing is missing.

    Parameters
    ----------
    bound : Bound
        The theorem.
    constants : Constants or mapping from str
        The constants by name; a bare number counts as exact.
    given : mapping from str
        Indices (t, k, K), observables, rates by name, and constants that replace those of `constants`. Values that
        are None are ignored.

    Returns
    -------
    Call
        The bound with its inputs; ``call.values()`` evaluates it.

    Raises
    ------
    InputError
        For a value of the wrong type or shape.
    AssumptionError
        If a constant violates an assumption of the theorem, such as q < 1.
    MissingConstantError
        If a symbol that the bound needs has no value.
    UnknownNameError
        For a name that is not a symbol of the theory or not a rate.
    """
    inputs = gather(bound, constants, given)
    resolved = resolve(bound, inputs)
    arrays = check(bound, inputs, resolved)
    used_constants = tuple(constant for constant in resolved.used if constant.name not in INDEX_NAMES)
    return Call(bound, resolved.expression, MappingProxyType(arrays), used_constants, inputs.rates)


# --- gather ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """The inputs of one evaluation, by type."""

    constants: Constants
    arrays: Mapping[str, np.ndarray]  # indices and observables
    rates: tuple[Rate, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of the symbols that have a value."""
        return frozenset(self.constants) | frozenset(self.arrays)


def gather(bound: Bound, constants: Constants | Mapping[str, Any], given: Mapping[str, Any]) -> Inputs:
    """Sort the inputs into constants, numbers and rates, and convert each to its type."""
    constants = as_constants(constants)
    given = known_symbols(given)
    by_rate_name = {name: value for name, value in given.items() if _is_rate(name, value)}
    rates = rates_by_name(bound, by_rate_name)
    typed = as_constants({name: value for name, value in given.items() if isinstance(value, Constant)})
    numbers = {name: value for name, value in given.items() if name not in typed and name not in by_rate_name}
    arrays = {name: _index_or_observable(bound, name, value) for name, value in numbers.items()}
    return Inputs(constants.replace(*typed.values()), arrays, rates)


def as_constants(constants: Any) -> Constants:
    """`constants` with every bare number as an exact `Constant`."""
    if isinstance(constants, Constants):
        return constants
    if not isinstance(constants, Mapping) or not all(isinstance(name, str) for name in constants):
        raise InputError(
            f"constants = {constants!r} is not a mapping from names; use Constants.given(q=0.9, …) or a dict"
        )
    return Constants({n: c if isinstance(c, Constant) else Constant(n, c) for n, c in constants.items()})


def known_symbols(given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that are not None; raises UnknownNameError if a name is not a symbol."""
    present = {name: value for name, value in given.items() if value is not None}
    for name in present:
        if name not in QUANTITIES:
            raise UnknownNameError.among("symbol", name, QUANTITIES)
    return present


def _is_rate(name: str, value: Any) -> bool:
    return name in RATE_NAMES and isinstance(value, str | Rate)


def rates_by_name(bound: Bound, named: Mapping[str, str | Rate]) -> tuple[Rate, ...]:
    """The rates that replace ρ and σ; raises InputError if the bound is not in the Euclidean norm."""
    rates = tuple(
        rate(value if isinstance(value, str) else value.name, QUANTITIES[name].symbol) for name, value in named.items()
    )
    if rates and not bound.takes_rates:
        raise InputError(f"{bound.name}: {rates[0].name!r} is a Euclidean rate; give {next(iter(named))} as numbers")
    return rates


def _index_or_observable(bound: Bound, name: str, value: Any) -> np.ndarray:
    return _index(bound, name, value) if name in INDEX_NAMES else _observable(name, value)


def _real_array(value: Any) -> np.ndarray:
    if np.iscomplexobj(value):
        raise TypeError("complex")
    return np.asarray(value, dtype=float)


def count(name: str, value: Any, low: int = 0, holds: str = "it") -> np.ndarray:
    """`value` as an array of whole numbers that are at least `low`."""
    try:
        array = _real_array(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {value!r} is not a whole number; give 0, 1, 2, … or a list of them") from None
    is_whole = np.isfinite(array) & (array == np.floor(array))
    if not is_whole.all():
        raise InputError(f"{name} = {array[~is_whole].flat[0]:g} is not a whole number; give 0, 1, 2, …")
    if array.size and array.max() > LARGEST_INDEX:
        raise InputError(f"{name} = {array.max():g} is more than a double counts exactly; give at most 2^53")
    if array.size and array.min() < low:
        raise InputError(f"{name} = {array.min():g} < {low}; {holds} holds for {name} ≥ {low}")
    return array


def _index(bound: Bound, name: str, value: Any) -> np.ndarray:
    return count(name, value, bound.t_min if name == "t" else 0, bound.name)


def _observable(name: str, value: Any) -> np.ndarray:
    try:
        array = _real_array(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {value!r} is not a number; give a number or an array of them") from None
    quantity = QUANTITIES[name]
    for extreme in (array.min(initial=np.inf), array.max(initial=-np.inf)) if array.size else ():
        quantity.check(float(extreme))
    return array


# --- resolve ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Resolved:
    """The expression to evaluate, and its inputs."""

    expression: sp.Expr  # every symbol without a value is replaced by its default
    names: tuple[str, ...]  # the symbols that need a value
    arrays: Mapping[str, np.ndarray]  # the given arrays, and k = t if k is needed and not given
    used: tuple[Constant, ...]  # the constants among `names`


def resolve(bound: Bound, inputs: Inputs) -> Resolved:
    """Insert defaults and rates into the formula, and collect the values of its symbols."""
    refuse_state(bound, inputs.names)
    expression = bound.resolved(inputs.names, inputs.rates)
    names = needed_names(bound, expression, inputs.rates, inputs.names)
    arrays = dict(inputs.arrays)
    if "k" in names and "k" not in arrays and "t" in arrays:
        arrays["k"] = arrays["t"]  # the paper's choice, and the default
    used = tuple(inputs.constants[name] for name in names if name in inputs.constants and name not in arrays)
    return Resolved(expression, names, arrays, used)


def needed_names(
    bound: Bound, expression: sp.Expr, rates: tuple[Rate, ...], available: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """The symbols that need a value: the symbols of the expression, of the conditions, and of the recursion."""
    needed = symbols_of(expression) | bound.needed_by_conditions(available, rates)
    if bound.recursion:
        needed = (needed | bound.recursion.free_symbols) - set(bound.recursion.state)
    names = tuple(name for name, quantity in QUANTITIES.items() if quantity.symbol in needed)
    return (*names, "t") if bound.recursion and "t" not in names else names


def refuse_state(bound: Bound, names: frozenset[str]) -> None:
    """Raise InputError if a value is given for a symbol that the recursion of the bound computes."""
    for symbol in bound.recursion.state if bound.recursion else ():
        if symbol.name in names:
            raise InputError(f"{bound.name} computes {symbol.name} by its recursion; leave {symbol.name} out")


# --- check -----------------------------------------------------------------------------------------------------------


def check(bound: Bound, inputs: Inputs, resolved: Resolved) -> dict[str, np.ndarray]:
    """Check domains, completeness and shapes, and return all arrays of the evaluation by name."""
    for constant in resolved.used:
        QUANTITIES[constant.name].check(constant.value, constant.side)
    arrays = {**resolved.arrays, **{c.name: _constant(bound, c) for c in resolved.used}}
    refuse_missing(bound, [name for name in resolved.names if name not in arrays], inputs.constants)
    refuse_shapes(bound, {name: array for name, array in arrays.items() if name in resolved.names})
    return arrays


def _constant(bound: Bound, constant: Constant) -> np.ndarray:
    is_index = constant.name in INDEX_NAMES
    return _index(bound, constant.name, constant.value) if is_index else np.asarray(constant.value)


def refuse_shapes(bound: Bound, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise InputError if the arrays do not broadcast, or if a recursion cannot take them."""
    shapes = {name: array.shape for name, array in arrays.items() if array.ndim}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"{bound.name}: shapes do not fit together: {listed}; give arrays that broadcast") from None
    if not bound.recursion:
        return
    if wrong := [name for name in shapes if name not in INDEX_NAMES]:
        raise InputError(f"{bound.name}: {wrong[0]} has shape {shapes[wrong[0]]}; a recursion takes one number for it")
    if arrays["t"].max(initial=0) > LONGEST_RECURSION:
        raise InputError(
            f"{bound.name}: t = {arrays['t'].max():g} is too long for a recursion; give t ≤ {LONGEST_RECURSION}"
        )

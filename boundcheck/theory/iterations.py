"""The number of iterations with which a bound guarantees an accuracy: in closed form if possible, else by search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from boundcheck.errors import InputError
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.evaluation import evaluate
from boundcheck.theory.iteration_search import Choice, Goal, search_k, search_pair, search_t
from boundcheck.theory.rate_inversion import RATES_ONLY, choose_along, refusal_of_steps, takes_rates
from boundcheck.theory.recursion import Tracks
from boundcheck.theory.shape_inversion import HumpNumbers, SplitNumbers, choose_on_hump, choose_on_split
from boundcheck.theory.symbols import k, q, t

if TYPE_CHECKING:
    from boundcheck.theory.bound import Bound
    from boundcheck.theory.call import Call

SMALLEST = 1e-300
LARGEST_RATIO = 1e9


@dataclass(frozen=True)
class Hump:
    """A bound of the form level·q^t + slope·t·q^(t−1). It may rise before it falls; Lambert W inverts it."""

    level: sp.Expr
    slope: sp.Expr
    rate: sp.Expr = q

    def expression(self) -> sp.Expr:
        return self.level * self.rate**t + self.slope * t * self.rate ** sp.Max(t - 1, 0)


@dataclass(frozen=True)
class Split:
    """A bound of the form lower·r^t + upper·s^k − cross·r^t·s^k. Its accuracy is split between t and k."""

    lower: sp.Expr
    upper: sp.Expr
    cross: sp.Expr = sp.S.Zero
    rate_t: sp.Expr = q
    rate_k: sp.Expr = q

    def expression(self) -> sp.Expr:
        left, right = self.rate_t**t, self.rate_k**k
        return self.lower * left + self.upper * right - self.cross * left * right


@dataclass(frozen=True)
class Iterations:
    """The cheapest numbers of steps for which a bound is at most a given accuracy.

    Attributes
    ----------
    t : int or None
        The lower-level steps; None if the bound has no t.
    k : int or None
        The steps of the linear solver; None if the bound has no k.
    value : float
        The bound at (t, k).
    cost : float
        cost_t·t + cost_k·k.
    side : Side
        The side of the value, given the constants.
    how : str
        How t and k were computed: by a closed form or by search.
    """

    t: int | None
    k: int | None
    value: float
    cost: float
    side: Side
    how: str


def solve(
    bound: Bound,
    constants: Any,
    eps: float,
    cost_t: float,
    cost_k: float,
    steps: StepSchedule | None,
    steps_v: StepSchedule | None,
    given: Mapping[str, Any],
) -> Iterations:
    """Find the smallest t, the cheapest (t, k), or the smallest t = k along given steps, with a bound of at most `eps`.

    Parameters
    ----------
    bound : Bound
        The theorem.
    constants : Constants or mapping from str
        The constants by name.
    eps : float
        The accuracy, at least 1e-300.
    cost_t, cost_k : float
        The costs of a step of the lower level and of the linear solver, in any unit; their ratio is at most 10⁹.
    steps, steps_v : StepSchedule or None
        The steps for w and for v, if the bound takes ρ_t and σ_k.
    given : mapping from str
        Further inputs of the bound: observables, rates by name.

    Returns
    -------
    Iterations
        t and k with the value of the bound, the cost, and how they were computed.

    Raises
    ------
    InputError
        If no number of steps reaches the accuracy, or if the bound has neither t nor k.
    AssumptionError
        If a condition of the theorem fails, whatever t and k are.
    """
    eps, cost_t, cost_k = (_positive(n, x) for n, x in (("eps", eps), ("cost_t", cost_t), ("cost_k", cost_k)))
    _refuse_extremes(eps, cost_t, cost_k)
    if steps is not None:
        choice, value, combined = choose_along(bound, constants, eps, steps, steps_v or steps, given)
        return Iterations(choice.t, choice.k, value, (cost_t + cost_k) * (choice.t or 0), combined.side, choice.how)
    if takes_rates(bound) or steps_v is not None:
        raise InputError(f"{bound.name} {RATES_ONLY}" if takes_rates(bound) else refusal_of_steps(bound))
    dearest = max(cost_t, cost_k)
    goal = Goal(_value(bound, constants, given), bound.t_min, eps, cost_t / dearest, cost_k / dearest)
    first = bound.call(constants, bound.t_min, 0, given)
    first.check_conditions(of_iterations=False)
    choice = _choose(goal, bound, first, given)
    cost = cost_t * (choice.t or 0) + cost_k * (choice.k or 0)
    value = float(goal.value(choice.t if choice.t is not None else bound.t_min, choice.k or 0))
    return Iterations(choice.t, choice.k, value, cost, first.values(check=False).side, choice.how)


def _choose(goal: Goal, bound: Bound, first: Call, given: Mapping[str, Any]) -> Choice:
    """Choose t and k in closed form if the bound has a shape, else by search over the indices that it depends on."""
    used = {symbol for symbol in (t, k) if symbol in first.expression.free_symbols} | (
        {t} if bound.recursion else set()
    )
    if not used:
        raise InputError(f"{bound.name} has no t or k to choose; measure its residuals and evaluate it instead")
    numbers = _shape_numbers(bound, first, given)
    if isinstance(numbers, HumpNumbers) and numbers.solvable:
        return choose_on_hump(goal, numbers)
    if isinstance(numbers, SplitNumbers) and numbers.solvable:
        return choose_on_split(goal, numbers)
    if used == {t, k}:
        return search_pair(goal)
    return search_t(goal) if t in used else search_k(goal)


def _value(bound: Bound, constants: Any, given: Mapping[str, Any]) -> Callable[[Any, Any], np.ndarray]:
    """The bound as a function of t and k, infinite where a condition of the theorem fails."""
    tracks: Tracks = {}

    def value(ts: Any, ks: Any) -> np.ndarray:
        call = bound.call(constants, ts, ks, given)
        values = call.values(check=False, tracks=tracks).values
        for condition in range(len(bound.conditions)):
            values = np.where(call.satisfied(condition), values, np.inf)
        return values

    return value


def _shape_numbers(bound: Bound, first: Call, given: Mapping[str, Any]) -> HumpNumbers | SplitNumbers | None:
    """The coefficients and rates of the shape at the constants of a call; None if the inputs change the shape."""
    replaced = set(given) | (set(first.arrays) & {symbol.name for symbol in bound.defaults})
    if replaced or bound.shape is None:
        return None
    available = frozenset(first.arrays)
    numbers = {
        name: float(evaluate(bound.substitute(bound.expand(getattr(bound.shape, name)), available), first.arrays))
        for name in bound.shape.__dataclass_fields__
    }
    return HumpNumbers(**numbers) if isinstance(bound.shape, Hump) else SplitNumbers(**numbers)


def _refuse_extremes(eps: float, cost_t: float, cost_k: float) -> None:
    if eps < SMALLEST:
        raise InputError(f"eps = {eps:g} is below what double precision resolves here; give eps ≥ {SMALLEST:g}")
    if not 1 / LARGEST_RATIO <= cost_t / cost_k <= LARGEST_RATIO:
        raise InputError(f"cost_t = {cost_t:g} and cost_k = {cost_k:g} differ too much; give a ratio up to 10⁹")


def _positive(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {value!r} is not a number; give a positive finite number, such as 1e-3") from None
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} = {number} is not positive; give a positive finite number, such as 1e-3")
    return number

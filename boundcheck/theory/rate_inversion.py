"""Find the least t = k for a bound that takes ρ_t and σ_k, computed along given steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from boundcheck.constants import Constant, Constants
from boundcheck.errors import InputError, MissingConstantError
from boundcheck.side import direction
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.arguments import as_constants, known_symbols
from boundcheck.theory.call import Call, refuse_missing
from boundcheck.theory.iteration_search import Choice
from boundcheck.theory.sides import CombinedSide, combine
from boundcheck.theory.stochastic_rates import OF_MEANS, RHO, SIGMA, DistanceBounds, Make, mean_of_v, smaller
from boundcheck.theory.symbols import QUANTITIES, mse_v, mse_w

if TYPE_CHECKING:
    from boundcheck.theory.bound import Bound

LONGEST = 2**20  # search at most this many steps
RATES = (mse_w.name, mse_v.name)
OWN_STEPS = "has steps of its own; leave out steps= and steps_v=, which are for bounds that take ρ_t and σ_k"
SIZES = ("eta", "beta", "gamma")  # of steps, where a bound takes them as constants
RATES_ONLY = "takes ρ_t and σ_k; give the steps of its iterations, such as steps=StepSchedule.constant(0.1)"


def takes_rates(bound: Bound) -> bool:
    """Whether a bound takes ρ_t and σ_k; such a bound contains neither t nor k."""
    return set(RATES) <= set(bound.symbols)


def refusal_of_steps(bound: Bound) -> str:
    """Why `steps` is refused, and what this bound takes instead."""
    sizes = " and ".join(name for name in SIZES if name in bound.symbols)
    return f"{bound.name} {OWN_STEPS}{f'; give {sizes} with the constants' if sizes else ''}"


@dataclass(frozen=True, eq=False)
class OfRates:
    """A bound on a random hypergradient as a function of ρ_t and σ_k, increasing in both."""

    bound: Bound
    constants: Constants
    given: Mapping[str, Any] = field(default_factory=dict)

    def call(self, rho: np.ndarray, sigma: np.ndarray) -> Call:
        """The evaluation at all ρ and σ; the arrays broadcast."""
        return self.bound.call(self.constants, None, None, {**self.given, mse_w.name: rho, mse_v.name: sigma})

    def values(self, rho: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """The bound at all ρ and σ; the arrays broadcast."""
        values: np.ndarray = self.call(rho, sigma).values().values
        return values

    @property
    def floor(self) -> float:
        """The bound at ρ = σ = 0, which no steps can go below."""
        return float(self.values(np.zeros(()), np.zeros(())))


def ways_of_v(bound: Bound) -> tuple[Make, ...]:
    """The functions that give σ_k for this bound."""
    return (mean_of_v,) if bound.name in OF_MEANS else SIGMA


def doubled(reached: Callable[[int], bool], most: int) -> int | None:
    """The first n of 1, 2, 4, …, `most` with reached(n); None if there is none."""
    n = 1
    while not reached(n):
        if n >= most:
            return None
        n = min(most, 2 * n)
    return n


def choose_along(
    bound: Bound, constants: Any, eps: float, steps: StepSchedule, steps_v: StepSchedule, given: Mapping[str, Any]
) -> tuple[Choice, float, CombinedSide]:
    """Find the least t = k at which a bound is at most `eps`, with the value there and its side.

    Parameters
    ----------
    bound : Bound
        A bound that takes ρ_t and σ_k.
    constants : Constants or mapping from str
        The constants by name, including the constants of the rates: q, m_1, V_star, mse_0, L_E. For gradient descent on
        convex examples, alpha, mu, L, mu_ell_hat, L_ell_hat replace q and m_1.
    eps : float
        The accuracy.
    steps, steps_v : StepSchedule
        The steps for w and for v.
    given : mapping from str
        Further inputs of the bound, such as W.

    Returns
    -------
    tuple of Choice, float and CombinedSide
        t = k, the bound there, and its side.

    Raises
    ------
    InputError
        If the bound takes no rates, if a rate is given too, or if no steps reach `eps`.
    MissingConstantError
        If a constant is missing.
    AssumptionError
        If q is not below 1, or a step is too large.
    """
    if not takes_rates(bound):
        raise InputError(refusal_of_steps(bound))
    known = as_constants(constants)
    given_rates = [name for name in RATES if name in known or name in known_symbols(given)]
    if given_rates:
        raise InputError(f"{given_rates[0]} and steps= are both given; leave out one of them")
    known = known.replace(*(_constant(n, x) for n, x in given.items() if QUANTITIES[n].kind == "constant"))
    of_rates = OfRates(bound, known, given)
    if not of_rates.floor <= eps:
        raise InputError(
            f"the bound stays above eps = {eps:g}: with ρ_t = σ_k = 0 it is {of_rates.floor:g}; take a larger batch, "
            "whose m_2 is smaller"
        )
    along = _Along(of_rates, steps, steps_v)
    longest = doubled(lambda n: bool((along.values(n) <= eps).any()), LONGEST)
    if longest is None:
        raise InputError(f"the bound stays above eps = {eps:g}; {along.where_it_stays()}")
    values = along.values(longest)
    n = int(np.argmax(values <= eps))
    return Choice(n, n, "search along the steps"), float(values[n]), along.worth(longest)


def _constant(name: str, value: Any) -> Constant:
    return value if isinstance(value, Constant) else Constant(name, value)


@dataclass(frozen=True, eq=False)
class _Along:
    """A bound at t = k = 0 … n along steps."""

    of_rates: OfRates
    steps: StepSchedule
    steps_v: StepSchedule

    def rates(self, n: int) -> tuple[DistanceBounds, DistanceBounds]:
        bound, constants = self.of_rates.bound, self.of_rates.constants
        try:
            return smaller(RHO, constants, self.steps, n), smaller(ways_of_v(bound), constants, self.steps_v, n)
        except MissingConstantError as why:
            refuse_missing(bound, list(why.names), constants)
            raise

    def values(self, n: int) -> np.ndarray:
        rho, sigma = self.rates(n)
        finite = np.isfinite(rho.values) & np.isfinite(sigma.values)
        values = self.of_rates.values(np.where(finite, rho.values, 0.0), np.where(finite, sigma.values, 0.0))
        return np.where(finite, values, np.inf)

    def worth(self, n: int) -> CombinedSide:
        rho, sigma = self.rates(n)
        used = self.of_rates.call(np.zeros(()), np.zeros(())).used
        names = dict.fromkeys((*(constant.name for constant in used), *rho.names, *sigma.names))
        return combine((self.of_rates.constants[name], direction(name)) for name in names)

    def where_it_stays(self) -> str:
        """A message with the least value along the steps, and with advice how to reduce it."""
        values = self.values(LONGEST)
        least, at = float(values.min()), int(values.argmin())
        if not math.isfinite(least):
            return "it is larger than every number; take smaller steps"
        where = f"its least value up to t = k = {LONGEST} is {least:g}, at t = k = {at}"
        if at < LONGEST and values[at:].max() == least:
            where = f"from t = k = {at} on it stays at {least:g}"
        if self.steps.switch is None or self.steps_v.switch is None:
            return f"{where}; take steps that decrease, smaller ones, or a larger batch"
        return f"{where}; take a larger eps or a larger batch"

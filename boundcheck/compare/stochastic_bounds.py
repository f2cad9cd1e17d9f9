"""The bounds on a random hypergradient at every point of a grid: which apply, their values, and their sides.

`CHECKS` has a function for each assumption that a problem may fail. `BY_CONSTRUCTION` has the assumptions that every
run meets, with the reason. If an assumption is in neither, importing this module fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from boundcheck.compare.case import YES, AssumptionAnswer
from boundcheck.compare.require_checks import require_checks
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.errors import AssumptionError, InputError, MissingConstantError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.report.stochastic_curve import Measured
from boundcheck.side import Side, direction
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.bound import Bound
from boundcheck.theory.call import Call
from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.rate_inversion import OfRates
from boundcheck.theory.sides import CombinedSide, combine
from boundcheck.theory.stochastic_rates import (
    OF_MEANS,
    RHO,
    SIGMA,
    DistanceBounds,
    Make,
    convex_rho,
    mean_of_v,
    neumann_mean,
    neumann_sigma,
    recursive_rho,
    smaller,
)

QUANTITIES = frozenset(measured.value for measured in Measured)


@dataclass(frozen=True, eq=False)
class StochasticCase:
    """A problem at one λ with the constants of its noise, and the steps of the run.

    Attributes
    ----------
    problem : Problem
        The problem, with a finite sum.
    constants : Constants
        All constants on one ball, with mse_0.
    steps : StepSchedule
        The steps of the lower level.
    steps_v : StepSchedule
        The steps of the linear solver.
    ball_doubt : str
        Why it is not proved that every iterate is in the ball of the constants; empty if it is.
    """

    problem: Problem
    constants: Constants
    steps: StepSchedule
    steps_v: StepSchedule
    ball_doubt: str

    @property
    def unbiased(self) -> AssumptionAnswer:
        """Whether the expectation of Φ̂ is the map Φ."""
        finite_sum = self.problem.finite_sum
        return AssumptionAnswer(doubt="" if finite_sum is None else finite_sum.doubt)

    @property
    def in_ball(self) -> AssumptionAnswer:
        """Whether all possible iterates are in the ball of the constants."""
        return AssumptionAnswer(doubt=self.ball_doubt)

    @property
    def gradient_step(self) -> AssumptionAnswer:
        """Whether Φ is a gradient step on a loss."""
        known = all(name in self.constants for name in ("alpha", "mu", "L"))
        return YES if known else AssumptionAnswer("Φ is not a gradient step on a loss with known μ and L")

    @property
    def both_decrease(self) -> AssumptionAnswer:
        """Whether the steps of both iterations are β/(γ + i) from the start."""
        same = self.steps.switch == 0 and self.steps == self.steps_v
        return (
            YES
            if same
            else AssumptionAnswer("applies only to decreasing steps β/(γ + i) from the start, the same for w and v")
        )


Check = Callable[[StochasticCase], AssumptionAnswer]
CHECKS: Mapping[str, Check] = {
    "2021 A": lambda case: case.in_ball,
    "2021 B": lambda case: case.unbiased,
    "stochastic map": lambda case: case.in_ball if case.in_ball.doubt else case.unbiased,
    "gradient noise": lambda case: case.gradient_step,
    "decreasing steps": lambda case: case.both_decrease,
}
BY_CONSTRUCTION: Mapping[str, str] = {
    "2021 C": "ρ_t and σ_k are the smaller of stochastic-recursive and sgd-convex with the steps that were taken; of a "
    "Neumann series, its own rate",
    "independent": "the solver draws a new minibatch for every step and for the last product",
    "noise": "σ₁ and σ₂ are among the constants, and a bound is worth what they are",
    "noise around w*": "V* and m₁ are among the constants, and a bound is worth what they are",
    "convex examples": "L̂ and μ̂ are among the constants only for a gradient step, and a bound is worth what they are",
    "Lipschitz draws": "L_Φ̂ is among the constants, and a bound is worth what it is",
    "2": "q is among the constants, and a q ≥ 1 is refused",
    "v_0 = 0": "the linear solver starts at 0",
}


def about_means() -> list[Bound]:
    """The bounds of the catalogue on the measured quantities of random hypergradients."""
    return [bound for bound in catalogue.values() if bound.bounds.name in QUANTITIES]


require_checks(about_means(), (*CHECKS, *BY_CONSTRUCTION))


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A bound on the grid. `refusal` says why it does not apply; `doubt` says why it is not proved to apply."""

    bound: Bound
    values: np.ndarray
    worth: CombinedSide
    refusal: str = ""
    doubt: str = ""


@dataclass(frozen=True, eq=False)
class BoundsOnGrid:
    """Evaluates bounds on "sid" or "neumann" for one case at every point (t, k) of a grid."""

    case: StochasticCase
    t: np.ndarray
    k: np.ndarray
    method: str = "sid"

    def evaluate(self, bound: Bound) -> Evaluated:
        """Evaluate a bound; its values are NaN where it does not apply."""
        nothing = Evaluated(bound, np.full(len(self.t), np.nan), combine(()))
        answers = [CHECKS[a.key](self.case) for a in bound.assumptions if a.key in CHECKS]
        refusal = next((answer.refusal for answer in answers if answer.refusal), "")
        doubt = next((answer.doubt for answer in answers if answer.doubt), "")
        if refusal:
            return replace(nothing, refusal=refusal)
        try:
            return replace(self._values(bound), doubt=doubt)
        except (AssumptionError, MissingConstantError, InputError) as why:
            return replace(nothing, refusal=str(why).removeprefix(f"{bound.name}: "))

    def _values(self, bound: Bound) -> Evaluated:
        by_name: Mapping[str, Callable[[Bound], Evaluated]] = {
            "stochastic-recursive": partial(self._along_steps, recursive_rho),
            "sgd-convex": partial(self._along_steps, convex_rho),
            "stochastic-constant": self._by_phases,
            "stochastic-decreasing": self._by_phases,
            "sgd-constant": self._by_phases,
            "sgd-decreasing": self._by_phases,
            "sid": self._of_algorithm,
        }
        return by_name.get(bound.name, self._of_rates)(bound)

    def _along_steps(self, way: Make, bound: Bound) -> Evaluated:
        """A bound on the distance of w_t from w*, with the steps of the run instead of a constant step."""
        rate = way(self.case.constants, self.case.steps, int(self.t.max()))
        return Evaluated(bound, rate.values[self.t], self._worth(rate.names))

    def _of_rates(self, bound: Bound) -> Evaluated:
        """A bound that takes ρ_t and σ_k."""
        of_v = self._mean_of_v if bound.name in OF_MEANS else self._sigma
        call = OfRates(bound, self.case.constants).call(self.rho[self.t], of_v.values[self.k])
        names = [*(constant.name for constant in call.used), *self._rho.names, *of_v.names]
        return Evaluated(bound, np.broadcast_to(call.values().values, self.t.shape), self._worth(names))

    def _of_algorithm(self, bound: Bound) -> Evaluated:
        given = {"beta": self.case.steps.beta, "gamma": self.case.steps.gamma}
        call = bound.call(self.case.constants, self.t, self.k, given)
        return Evaluated(bound, call.values().values, self._worth(constant.name for constant in call.used))

    def _by_phases(self, bound: Bound) -> Evaluated:
        """A bound for constant steps, or for decreasing steps, which may start after the constant ones."""
        steps, constants = self.case.steps, self.case.constants
        family, _, kind = bound.name.rpartition("-")
        switch = steps.switch
        if kind == "constant":
            if switch == 0:
                raise InputError(f"applies only to constant steps, and the steps are {steps}")
            call = bound.call(constants, self.t, None, {"eta": steps.eta})
            within = self.t <= (np.inf if switch is None else switch)
            return self._restricted(bound, call.values().values, within, call.used)
        if switch is None:
            raise InputError(f"applies only to decreasing steps, and the steps are {steps}")
        used: tuple[Constant, ...] = ()
        if switch > 0:
            first = catalogue[f"{family}-constant"].call(constants, switch, None, {"eta": steps.eta})
            used = first.used
            there = float(_of_first_phase(first))
            constants = constants.replace(Constant("mse_0", there, Side.UPPER, Provenance("the bound at the switch")))
        after = self.t >= switch
        given = {"beta": steps.beta, "gamma": steps.gamma}
        call = bound.call(constants, np.maximum(self.t - switch, 0), None, given)
        return self._restricted(bound, call.values().values, after, (*call.used, *used))

    def _restricted(self, bound: Bound, values: np.ndarray, where: np.ndarray, used: Sequence[Constant]) -> Evaluated:
        return Evaluated(bound, np.where(where, values, np.nan), self._worth(constant.name for constant in used))

    def _worth(self, names: Iterable[str]) -> CombinedSide:
        constants = self.case.constants
        return combine((constants[name], direction(name)) for name in dict.fromkeys(names) if name in constants)

    @cached_property
    def _rho(self) -> DistanceBounds:
        return smaller(RHO, self.case.constants, self.case.steps, int(self.t.max()))

    @cached_property
    def _mean_of_v(self) -> DistanceBounds:
        constants, k = self.case.constants, int(self.k.max())
        return neumann_mean(constants, k) if self.method == "neumann" else mean_of_v(constants, self.case.steps_v, k)

    @cached_property
    def _sigma(self) -> DistanceBounds:
        if self.method == "neumann":
            return neumann_sigma(self.case.constants, int(self.k.max()))
        return smaller(SIGMA, self.case.constants, self.case.steps_v, int(self.k.max()))

    @property
    def rho(self) -> np.ndarray:
        """ρ_0 … ρ_T: bounds on E‖w_t − w*‖²."""
        return self._rho.values

    @property
    def sigma(self) -> np.ndarray:
        """σ_0 … σ_K: bounds on E‖v_k − v(w)‖² for every w of the ball, from v_0 = 0."""
        return self._sigma.values


def _of_first_phase(call: Call) -> np.ndarray:
    """The value at which steps begin to decrease; if there is none, the error has the reason of the first phase."""
    try:
        values: np.ndarray = call.values().values
    except AssumptionError as why:
        raise AssumptionError(str(why).removeprefix(f"{call.bound.name}: ")) from None
    return values


def every(
    case: StochasticCase, method: Method, t: np.ndarray, k: np.ndarray, names: Sequence[str] | None
) -> Iterator[Evaluated]:
    """Evaluate the bounds on a method: those with the given names, or all."""
    grid = BoundsOnGrid(case, t, k, method.name)
    for bound in about_means() if names is None else [catalogue[name] for name in names]:
        if method.name in bound.methods:
            yield grid.evaluate(bound)

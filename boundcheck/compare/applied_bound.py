"""Apply a bound to a method on a problem: constants on the right ball, rates of the solvers, values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy as sp

from boundcheck.ball import BallKind
from boundcheck.compare.case import Case
from boundcheck.compare.one_smoothness import one_smoothness
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.errors import AssumptionError, MissingConstantError
from boundcheck.methods import Method
from boundcheck.theory import step_sizes
from boundcheck.theory.bound import Bound
from boundcheck.theory.call import Call
from boundcheck.theory.evaluation import BoundValues, evaluate
from boundcheck.theory.rates import RATES, SOLVER_RATES
from boundcheck.theory.symbols import QUANTITIES, rho, sigma

NORMS = 6  # the number of Lyapunov norms; a weighted bound takes the best of them at each t


@dataclass(frozen=True, eq=False)
class Applied:
    """A bound with its inputs. Each set of `constants` gives a bound, and the smallest one at each t counts."""

    bound: Bound
    method: Method
    ball: BallKind
    constants: Sequence[Constants]
    rates: Mapping[str, str]  # the names of ρ and σ
    observed: Mapping[str, np.ndarray] = field(default_factory=dict)  # the observables that the formula needs

    def values(self, ts: np.ndarray) -> BoundValues:
        """The bound at every t, NaN where a condition of the theorem fails; AssumptionError if it fails at all t."""
        call = self.bound.call(self.constants[0], ts, self.k(ts), self._given(ts))
        return self._least(call, ts)

    def values_at(self, others: Sequence[Applied], ts: np.ndarray) -> list[BoundValues]:
        """The bound with the constants of each of several λ; the other inputs are those of this one."""
        call = self.bound.call(self.constants[0], ts, self.k(ts), self._given(ts))
        values = []
        for i, other in enumerate(others):
            try:
                values.append(other._least(call.with_constants(other.constants[0]), ts))
            except (AssumptionError, MissingConstantError) as why:
                raise type(why)(f"{why}{of_sample(i, others) if i else ''}") from None
        return values

    def _least(self, call: Call, ts: np.ndarray) -> BoundValues:
        """The smallest value over the sets of constants; `call` has the first set."""
        calls = [call, *(call.with_constants(constants) for constants in self.constants[1:])]
        candidates = [_masked(call_values, ts) for call_values in calls]
        best = (
            np.min([candidate.values for candidate in candidates], axis=0)
            if len(candidates) > 1
            else candidates[0].values
        )
        return replace(candidates[0], values=best)

    def rounded_up(self, relative: float) -> Applied:
        """Change every constant and observable by this relative amount, in the direction in which the bound grows."""

        def moved(name: str, value: Any) -> Any:
            return value * (1 + QUANTITIES[name].direction * relative)

        def constant(c: Constant) -> Constant:
            smaller, towards = (
                tuple((radius, moved(c.name, value)) for radius, value in table) for table in (c.on_smaller, c.towards)
            )
            return replace(c, value=moved(c.name, c.value), on_smaller=smaller, towards=towards)

        sets = [Constants({n: constant(c) for n, c in constants.items()}) for constants in self.constants]
        return replace(self, constants=sets, observed={n: moved(n, x) for n, x in self.observed.items()})

    def k(self, ts: np.ndarray) -> np.ndarray:
        if self.method.k is None:
            return ts
        fixed = np.full_like(ts, self.method.k)
        return np.minimum(fixed, ts) if self._truncated else fixed

    @property
    def _truncated(self) -> bool:
        return self.method.name == "itd-truncated"

    def _given(self, ts: np.ndarray) -> dict[str, Any]:
        return {**self.observed, **self.rates, **({"K": self.k(ts)} if self._truncated else {})}

    def inputs(self, ts: np.ndarray) -> dict[str, np.ndarray | float]:
        """Every constant, index and rate as a number, and the state of a recursion at each t, for the proof chain."""
        constants = self.constants[0]
        numbers: dict[str, Any] = {name: constant.value for name, constant in constants.items()}
        numbers |= {"t": ts.astype(float), "k": self.k(ts).astype(float)}
        arrays = {name: np.asarray(value, float) for name, value in numbers.items()}
        for name, expression in self.rate_formulas.items():
            needed = {symbol.name: arrays[symbol.name] for symbol in expression.free_symbols}
            numbers[name] = np.broadcast_to(evaluate(expression, needed), ts.shape)
        call = self.bound.call(constants, ts, self.k(ts), self._given(ts)) if self.bound.recursion else None
        return numbers if call is None else numbers | call.state()

    @property
    def rate_formulas(self) -> dict[str, sp.Expr]:
        """The formulas of ρ and σ in the constants."""
        defaults = {symbol.name: expression for symbol, expression in self.bound.defaults.items() if symbol == rho}
        rates = {name: RATES[rate] for name, rate in self.rates.items()}
        if self.bound.solver_rate is not None:
            rates["sigma"] = self.bound.solver_rate
        return defaults | {name: rate.expression for name, rate in rates.items()}


def apply(bound: Bound, method: Method, case: Case, observed: Mapping[str, np.ndarray] | None = None) -> Applied:
    """Collect the inputs of a bound on this problem: constants, rates and the observables that it needs."""
    ball = bound.ball
    constants, momentum = case.constants[ball], case.momentum
    rates: dict[str, str] = {}
    if bound.takes_rates and bound.mentions(rho) and momentum is not None:
        rates["rho"] = momentum.name
    elif bound.mentions(rho) and rho not in bound.defaults:
        rates["rho"] = "contraction"
    if bound.mentions(sigma):
        rates["sigma"] = SOLVER_RATES[method.name]
    keys = {assumption.key for assumption in bound.assumptions}
    sets: Sequence[Constants] = (constants,)
    if "P-norm" in keys and momentum is not None:
        steps = np.unique(np.geomspace(2, 20 * momentum.kappa**0.5, NORMS).astype(int))
        over_ball = constants.replace(_over_step("L_ell", "L_Phi", constants))
        sets = [step_sizes.lyapunov(momentum, t=int(t)).constants(over_ball) for t in steps]
    elif keys & {"heavy ball", "Nesterov"} and momentum is not None:
        sets = (constants.replace(Constant("alpha", momentum.alpha)),)
    elif "smooth" in keys:
        sets = (constants.replace(one_smoothness(constants)),)
    elif "gradient step" in keys:
        sets = (constants.replace(_over_step("L_ell", "L_Phi_star", constants)),)
    symbols = bound.primitive.free_symbols | bound.in_conditions
    free = {symbol.name for symbol in symbols} - {s.name for s in bound.defaults}
    needed = {name for name in free if QUANTITIES[name].kind == "observable"} - {"rho", "sigma"}
    if bound.recursion:
        needed -= {symbol.name for symbol in bound.recursion.state}
    return Applied(bound, method, ball, sets, rates, {n: (observed or {})[n] for n in needed if n in (observed or {})})


def of_sample(i: int, all_of_them: Sized) -> str:
    """The number of the λ as text; empty if there is only one."""
    return f", λ number {i}" if len(all_of_them) > 1 else ""


def _over_step(name: str, source: str, constants: Constants) -> Constant:
    """‖∇²₂₁ℓ‖ = ‖∂₂Φ‖/α for a frozen step."""
    if source not in constants:
        raise MissingConstantError(
            f"it needs {source} ({QUANTITIES[source].meaning}), which was not measured", (source,)
        )
    constant = constants[source]
    how = Provenance(f"{constant.name}/α", delta=constant.provenance.delta, ball=constant.provenance.ball)
    return Constant(name, constant.value / constants["alpha"].value, constant.side, how)


def _masked(call: Call, ts: np.ndarray) -> BoundValues:
    values = call.values(check=False)
    conditions = [np.broadcast_to(call.satisfied(i), ts.shape) for i in range(len(call.bound.conditions))]
    fits = np.all(conditions, axis=0) if conditions else np.ones(ts.shape, dtype=bool)
    if not fits.any():
        call.check_conditions()
    return replace(values, values=np.where(fits, np.broadcast_to(values.values, ts.shape), np.nan))

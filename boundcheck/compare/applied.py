"""A bound applied to a method on a problem: its constants on the right ball, the rates of the solvers, its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy as sp

from boundcheck.compare.applicable import SOLVER_RATES, Case, ball_of
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.errors import AssumptionError
from boundcheck.methods import Method
from boundcheck.theory import step_sizes
from boundcheck.theory.bound import Bound
from boundcheck.theory.evaluation import BoundValues, evaluate
from boundcheck.theory.rates import RATES
from boundcheck.theory.symbols import QUANTITIES, rho, sigma

OWN_RATE = {"aid-cg": "cg", "aid-cg-chebyshev": "cg-chebyshev"}  # σ where the formula has it written out
FAR, TINY = 1 << 18, 1e-250  # up to where a bound is followed for its rate
NORMS = 6  # Lyapunov norms among which a weighted bound takes the best at each t


@dataclass(frozen=True, eq=False)
class Applied:
    """`constants` holds one set, or several of which each gives a bound: then the least at every t counts."""

    bound: Bound
    method: Method
    ball: str
    constants: Sequence[Constants]
    rates: Mapping[str, str]  # the names of ρ and σ
    observed: Mapping[str, np.ndarray] = field(default_factory=dict)  # at the t of the run, where the formula needs it

    def values(self, ts: np.ndarray) -> BoundValues:
        """At every t, with NaN where a condition of the theorem fails; AssumptionError where it fails for all t."""
        found = [self._with(constants, ts) for constants in self.constants]
        best = np.min([one.values for one in found], axis=0) if len(found) > 1 else found[0].values
        return replace(found[0], values=best)

    def _with(self, constants: Constants, ts: np.ndarray) -> BoundValues:
        call = self.bound.call(constants, ts, self.k(ts), self._given(ts))
        values = call.values(check=False)
        fits = np.all([np.broadcast_to(call.satisfied(i), ts.shape) for i in range(len(self.bound.conditions))], axis=0)
        if not fits.any():
            call.check_conditions()
        return replace(values, values=np.where(fits, np.broadcast_to(values.values, ts.shape), np.nan))

    def k(self, ts: np.ndarray) -> np.ndarray:
        return ts if self.method.k is None else np.minimum(self.method.k, ts) if self._truncated else self._fixed(ts)

    def _fixed(self, ts: np.ndarray) -> np.ndarray:
        return np.full_like(ts, self.method.k)

    @property
    def _truncated(self) -> bool:
        return self.method.name == "itd-truncated"

    def _given(self, ts: np.ndarray) -> dict[str, Any]:
        return {**self.observed, **self.rates, **({"K": self.k(ts)} if self._truncated else {})}

    def inputs(self, ts: np.ndarray) -> dict[str, np.ndarray | float]:
        """Every constant, index and rate as a number, for the proof chain."""
        constants = self.constants[0]
        numbers: dict[str, Any] = {name: constant.value for name, constant in constants.items()}
        numbers |= {"t": ts.astype(float), "k": self.k(ts).astype(float)}
        arrays = {name: np.asarray(value, float) for name, value in numbers.items()}
        for name, expression in self.rate_formulas.items():
            needed = {symbol.name: arrays[symbol.name] for symbol in expression.free_symbols}
            numbers[name] = np.broadcast_to(evaluate(expression, needed), ts.shape)
        return numbers

    @property
    def rate_formulas(self) -> dict[str, sp.Expr]:
        """ρ and σ in the constants."""
        defaults = {symbol.name: expression for symbol, expression in self.bound.defaults.items() if symbol == rho}
        named = {"sigma": OWN_RATE[self.bound.name]} if self.bound.name in OWN_RATE else {}
        return defaults | {name: RATES[rate].expression for name, rate in {**self.rates, **named}.items()}


def apply(bound: Bound, method: Method, case: Case, observed: Mapping[str, np.ndarray] | None = None) -> Applied:
    """The bound with what it needs on this problem; MissingConstantError if `observed` lacks what it must be given."""
    ball = ball_of(bound)
    constants, momentum = case.constants[ball], case.momentum
    rates: dict[str, str] = {}
    if bound.takes_rates and bound.mentions(rho) and momentum is not None:
        rates["rho"] = momentum.name
    elif bound.mentions(rho) and rho not in bound.defaults:
        rates["rho"] = "contraction"
    if bound.mentions(sigma):
        rates["sigma"] = SOLVER_RATES[method.name]
    keys = {assumption.key for assumption in bound.assumptions}
    several: Sequence[Constants] = (constants,)
    if "P-norm" in keys and momentum is not None:
        steps = np.unique(np.geomspace(2, 20 * momentum.kappa**0.5, NORMS).astype(int))
        over_ball = constants.replace(_over_step("L_ell", constants["L_Phi"], constants))
        several = [step_sizes.lyapunov(momentum, t=int(t)).constants(over_ball) for t in steps]
    elif keys & {"heavy ball", "Nesterov"} and momentum is not None:
        several = (constants.replace(Constant("alpha", momentum.alpha)),)
    elif "gradient step" in keys:
        several = (constants.replace(_over_step("L_ell", constants["L_Phi_star"], constants)),)
    free = {symbol.name for symbol in bound.primitive.free_symbols} - {s.name for s in bound.defaults}
    needed = {name for name in free if QUANTITIES[name].kind == "observable"} - {"rho", "sigma"}
    if bound.recursion:
        needed -= {symbol.name for symbol in bound.recursion.state}
    return Applied(
        bound, method, ball, several, rates, {n: (observed or {})[n] for n in needed if n in (observed or {})}
    )


def _over_step(name: str, of: Constant, constants: Constants) -> Constant:
    """‖∇²₂₁ℓ‖ = ‖∂₂Φ‖/α for a frozen step."""
    how = Provenance(f"{of.name}/α", delta=of.provenance.delta, ball=of.provenance.ball)
    return Constant(name, of.value / constants["alpha"].value, of.side, how)


def rate_of(applied: Applied) -> float | None:
    """lim bound(t+1)/bound(t), from three points far out: a·t^p·r^t goes through them; None if it cannot be had."""
    if applied.observed:
        return None
    t = 64
    while t < FAR and not _value(applied, 2 * t) <= TINY:  # not a number where the theorem does not speak yet
        t *= 2
    ts = np.array([t // 2, 3 * t // 4, t])
    values = np.array([_value(applied, int(n)) for n in ts])
    if not (np.isfinite(values).all() and (values > 0).all()):
        return None
    steps, powers = np.diff(ts).astype(float), np.diff(np.log(ts))
    return float(np.exp(np.linalg.solve(np.stack([steps, powers], axis=1), np.diff(np.log(values)))[0]))


def _value(applied: Applied, t: int) -> float:
    try:
        return float(applied.values(np.array([t])).values[0])
    except AssumptionError:
        return np.nan

"""Step sizes and contraction constants from μ and L: gradient descent, heavy ball, Nesterov.

The formulas are sympy expressions, written once, here and in `coefficients.py` and `rates.py`; the functions below put
numbers into them. The norms in which momentum methods contract are in `lyapunov.py`; their names are here too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import sympy as sp

from boundcheck.constants import Constants, Side
from boundcheck.errors import InputError
from boundcheck.theory.arguments import count
from boundcheck.theory.bounds import heavy_ball as heavy_ball_bound
from boundcheck.theory.bounds import nesterov as nesterov_bound
from boundcheck.theory.coefficients import GRADIENT_DESCENT
from boundcheck.theory.evaluation import evaluate
from boundcheck.theory.lyapunov import Lyapunov, lyapunov, lyapunov_for
from boundcheck.theory.rates import S
from boundcheck.theory.symbols import QUANTITIES, L, S_t, dS_t, mu, q, s

__all__ = [
    "GradientDescent",
    "Lyapunov",
    "Momentum",
    "OwnStep",
    "StepSizes",
    "from_constants",
    "gradient_descent",
    "heavy_ball",
    "lyapunov",
    "lyapunov_for",
    "nesterov",
]

ALPHA_STAR = 2 / (mu + L)  # minimises max(1−αμ, αL−1); `appB`
HEAVY_BALL_STEP = 4 / (sp.sqrt(L) + sp.sqrt(mu)) ** 2
HEAVY_BALL_MOMENTUM = S**2
NESTEROV_STEP = 1 / L
NESTEROV_MOMENTUM = S


def _number(expression: sp.Expr, **values: float) -> float:
    return float(evaluate(expression, {name: np.asarray(value, float) for name, value in values.items()}))


def _real(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {value!r} is not a number; give a finite real number") from None
    QUANTITIES[name].check(number)
    return number


def _spectrum(mu: Any, L: Any) -> tuple[float, float]:
    """μ and L as floats, if they are the ends of a spectrum that double precision can work with."""
    low, high = _real("mu", mu), _real("L", L)
    if low > high:
        raise InputError(f"mu = {low:g} > L = {high:g}; strong convexity cannot exceed smoothness, check both")
    if not (low > 1e-150 and high < 1e150 and high / low < 1e15):
        raise InputError(f"mu = {low:g}, L = {high:g}: out of range; scale the problem so that κ = L/μ < 1e15")
    return low, high


@dataclass(frozen=True)
class GradientDescent:
    """Φ = w − α∇₁ℓ: its contraction constant, and the largest step size that contracts (excluded itself)."""

    alpha: float
    q: float
    kappa: float
    largest_alpha: float

    @property
    def contracts(self) -> bool:
        return self.q < 1


def gradient_descent(mu: float, L: float, alpha: float | None = None) -> GradientDescent:
    """Gradient descent at `alpha`, or at the best step size 2/(μ+L), where q = (κ−1)/(κ+1)."""
    mu, L = _spectrum(mu, L)
    step = _number(ALPHA_STAR, mu=mu, L=L) if alpha is None else _real("alpha", alpha)
    contraction = _number(GRADIENT_DESCENT[q], alpha=step, mu=mu, L=L)
    return GradientDescent(step, contraction, L / mu, 2 / L)


@dataclass(frozen=True)
class Momentum:
    """A momentum method on quadratics with spectrum in [μ, L], from w_{−1} = w_0.

    w_{t+1} = w_t + β(w_t−w_{t−1}) − α∇ℓ, the gradient at w_t for heavy ball, at w_t + β(w_t−w_{t−1}) for Nesterov.
    """

    name: str
    alpha: float
    beta: float
    kappa: float
    mu: float
    rate: float

    def factor(self, t: np.ndarray | int) -> np.ndarray:
        """The exact worst case of ‖w_t−w*‖/‖w_0−w*‖."""
        return self._of(S_t, t)

    def slope(self, t: np.ndarray | int) -> np.ndarray:
        """The exact worst case of ‖D_H w_t‖/‖w_0−w*‖, what a change of the Hessian does to the t-th iterate."""
        return self._of(dS_t, t)

    def _of(self, symbol: sp.Symbol, t: np.ndarray | int) -> np.ndarray:
        values = {"t": count("t", t), "kappa": np.asarray(self.kappa), "alpha": np.asarray(self.alpha)}
        return evaluate(_BOUNDS[self.name].expand(symbol), values)

    def matrix(self, h: float) -> np.ndarray:
        """The 2×2 matrix that takes (w_t, w_{t−1}) − w* one step on, for the eigenvalue h of the Hessian."""
        x = 1 - self.alpha * h
        if self.name == "heavy-ball":
            return np.array([[x + self.beta, -self.beta], [1.0, 0.0]])
        return np.array([[(1 + self.beta) * x, -self.beta * x], [1.0, 0.0]])


_BOUNDS = {"heavy-ball": heavy_ball_bound.BOUND, "nesterov": nesterov_bound.BOUND}


def _momentum(name: str, step: sp.Expr, momentum: sp.Expr, mu: float, L: float) -> Momentum:
    mu, L = _spectrum(mu, L)
    ratio = L / mu
    rate = _number(_BOUNDS[name].where[s], kappa=ratio)
    return Momentum(name, _number(step, mu=mu, L=L), _number(momentum, kappa=ratio), ratio, mu, rate)


def heavy_ball(mu: float, L: float) -> Momentum:
    """Heavy ball at its optimal α = 4/(√L+√μ)², β = ((√κ−1)/(√κ+1))²."""
    return _momentum("heavy-ball", HEAVY_BALL_STEP, HEAVY_BALL_MOMENTUM, mu, L)


def nesterov(mu: float, L: float) -> Momentum:
    """Nesterov's method at α = 1/L, β = (√κ−1)/(√κ+1)."""
    return _momentum("nesterov", NESTEROV_STEP, NESTEROV_MOMENTUM, mu, L)


@dataclass(frozen=True)
class OwnStep:
    """The gradient step of the problem itself: does it contract?"""

    alpha: float
    q: float
    contracts: bool


@dataclass(frozen=True)
class StepSizes:
    """What μ and L give: the best gradient step, the momentum methods, and what the problem's own step does.

    `proved` is false where μ and L are measured at w* alone or with some probability only: then all are estimates.
    """

    proved: bool
    best: GradientDescent
    heavy_ball: Momentum
    nesterov: Momentum
    own: OwnStep | None  # None where the problem has no step size

    def as_json(self) -> dict[str, Any]:
        """By the name of the method."""
        content: dict[str, Any] = {"proved": self.proved, "gradient-descent": asdict(self.best)}
        for method in (self.heavy_ball, self.nesterov):
            content[method.name] = {"alpha": method.alpha, "beta": method.beta, "rate": method.rate}
        return content if self.own is None else {**content, "own": asdict(self.own)}


def from_constants(constants: Constants) -> StepSizes | None:
    """The step sizes that the constants of a problem give.

    Parameters
    ----------
    constants : Constants
        With μ and L, and where the problem has a step size also alpha and q.

    Returns
    -------
    StepSizes or None
        None where μ and L are missing, or are not the ends of a positive spectrum.
    """
    if not {"mu", "L"} <= set(constants) or constants["mu"].value <= 0:
        return None
    low, high = constants["mu"].value, constants["L"].value
    try:
        best, heavy, accelerated = gradient_descent(low, high), heavy_ball(low, high), nesterov(low, high)
    except InputError:
        return None
    return StepSizes(_vouched(constants), best, heavy, accelerated, _own_step(constants))


def _vouched(constants: Constants) -> bool:
    """Are μ and L on the sides on which a step that contracts for them contracts for the truth?"""
    mu, L = constants["mu"].side, constants["L"].side
    return mu in (Side.EXACT, Side.LOWER) and L in (Side.EXACT, Side.UPPER)


def _own_step(constants: Constants) -> OwnStep | None:
    if "alpha" not in constants:
        return None
    step = gradient_descent(constants["mu"].value, constants["L"].value, constants["alpha"].value)
    q = constants["q"]
    refuted = q.value >= 1 and q.side in (Side.EXACT, Side.LOWER)  # somewhere on the ball, if not at w*
    return OwnStep(step.alpha, step.q, step.contracts and not refuted)

"""Step sizes and contraction constants from μ and L: gradient descent, heavy ball, Nesterov, and the Lyapunov norm.

The formulas are sympy expressions, written once, here and in `coefficients.py` and `rates.py`; the functions below put
numbers into them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from scipy.optimize import minimize_scalar

from boundcheck.constants import Constant, Constants, Provenance, Side
from boundcheck.errors import InputError, MissingConstantError
from boundcheck.theory.arguments import count
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import heavy_ball as heavy_ball_bound
from boundcheck.theory.bounds import nesterov as nesterov_bound
from boundcheck.theory.coefficients import GRADIENT_DESCENT
from boundcheck.theory.evaluation import evaluate
from boundcheck.theory.rates import S
from boundcheck.theory.symbols import QUANTITIES, L, S_t, dS_t, mu, q, s

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
class Lyapunov:
    """A norm ‖z‖ ≤ ‖z‖_P ≤ √`stretch`·‖z‖ in which a momentum method contracts by q_P, on all of [μ, L].

    For each eigenvalue h, P(h) = Σ_j (M^j)ᵀM^j/q_P^{2j} solves MᵀPM/q_P² − P + I = 0. P ≽ I, and ‖P(h)‖ is largest at
    h = μ (docs/proofs.md), so `stretch` = ‖P(μ)‖ holds for every spectrum in the interval.
    """

    method: Momentum
    theta: float
    q_P: float
    P: np.ndarray
    stretch: float

    def factor(self, t: np.ndarray | int) -> np.ndarray:
        """A bound on ‖M^t‖ in the Euclidean norm."""
        return math.sqrt(self.stretch) * self.q_P ** count("t", t)

    def constants(self, constants: Mapping[str, Constant]) -> Constants:
        """The P-norm constants of the weighted bounds from the Euclidean ones, for a quadratic lower level.

        Needs r_0, L_E, L_ell, eta_1, eta_2, hat_rho_2 on the ball the iterates visit. The state starts at (w_0, w_0),
        E and ∂₂Φ see it only through w_t (heavy ball) or w_t + β(w_t−w_{t−1}) (Nesterov).
        """
        names = ("r_0", "L_E", "L_ell", "eta_1", "eta_2", "hat_rho_2")
        if missing := [name for name in names if name not in constants]:
            raise MissingConstantError(
                f"the P-norm constants need {', '.join(missing)}; give {missing[0]} ({QUANTITIES[missing[0]].meaning})"
            )
        root, b = math.sqrt(self.stretch), self.method.beta
        seen = 1.0 if self.method.name == "heavy-ball" else math.hypot(1 + b, b)
        step = root * self.method.alpha
        from_euclidean = {
            "D_P": ("r_0", root * math.sqrt(2)),
            "L_E_P": ("L_E", 1.0),
            "L_Phi_P": ("L_ell", step),
            "eta_1_P": ("eta_1", 1.0),
            "eta_2_P": ("eta_2", 1.0),
            "nu_2_P": ("hat_rho_2", step * seen),
        }
        how = "P-norm of a momentum method"
        made = {
            name: Constant(
                name,
                factor * constants[source].value,
                constants[source].side,
                Provenance(f"{how}, from {source}", "docs/proofs.md", delta=constants[source].provenance.delta),
            )
            for name, (source, factor) in from_euclidean.items()
        }
        for name, value in (("q_P", self.q_P), ("nu_1_P", 0.0)):
            made[name] = Constant(name, value, Side.EXACT, Provenance(how, "docs/proofs.md"))
        return Constants(made)


def lyapunov(method: Momentum, *, theta: float | None = None, t: int | None = None) -> Lyapunov:
    """The Lyapunov norm at q_P = s + θ(1−s), or at the θ that makes its factor √stretch·q_P^t at `t` smallest.

    At the optimal parameters M(μ) is defective, so no norm has q_P = s and θ = 0 is excluded.
    """
    if (theta is None) == (t is None):
        raise InputError(f"theta = {theta} and t = {t}: give exactly one of them")
    if theta is None:
        steps = float(count("t", t))
        return _best_norm(method, lambda norm: math.log(norm.stretch) / 2 + steps * math.log(norm.q_P))
    try:
        share = float(theta)
    except (TypeError, ValueError):
        raise InputError(f"theta = {theta!r} is not a number; give one in (0, 1)") from None
    if not SMALLEST_THETA <= share < 1:
        raise InputError(f"theta = {theta} is outside (0, 1); q_P = s + theta(1−s) has to lie between s and 1")
    q_P = method.rate + share * (1 - method.rate)
    P = _lyapunov_matrix(method.rate, q_P, gap=share * (1 - method.rate) / q_P)
    return Lyapunov(method, share, q_P, P, float(np.linalg.eigvalsh(P)[-1]))


def lyapunov_for(
    bound: Bound, method: Momentum, constants: Mapping[str, Constant], t: int, k: int | None = None
) -> Lyapunov:
    """The Lyapunov norm whose θ makes a weighted bound smallest at t (and k)."""
    return _best_norm(method, lambda norm: float(bound.evaluate(norm.constants(constants), t, k).values))


SMALLEST_THETA = 1e-9


def _best_norm(method: Momentum, objective: Callable[[Lyapunov], float]) -> Lyapunov:
    found = minimize_scalar(
        lambda x: objective(lyapunov(method, theta=math.exp(x))),
        bounds=(math.log(SMALLEST_THETA), math.log(1 - 1e-9)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return lyapunov(method, theta=math.exp(float(found.x)))


def _lyapunov_matrix(s: float, q_P: float, gap: float) -> np.ndarray:
    """P(μ) = Σ_j (MᵀM)-powers/q_P^{2j} in closed form, where a solver would meet a system singular to rounding.

    M(μ) has the double eigenvalue s, so M^j = [[(j+1)s^j, −js^{j+1}], [js^{j−1}, −(j−1)s^j]] for both methods; the sums
    of j^i y^j, y = (s/q_P)², are rational in y. `gap` = 1 − s/q_P is given so as not to cancel.
    """
    y = (s / q_P) ** 2
    rest = gap * (1 + s / q_P)  # 1 − y
    sum_0, sum_1, sum_2 = 1 / rest, y / rest**2, y * (1 + y) / rest**3
    pairs = 2 * y / (q_P**2 * rest**3)  # Σ j(j−1)y^j / s²
    squares = (1 + y) / (q_P**2 * rest**3)  # Σ j²y^j / s²
    corner = -s * (sum_2 + sum_1 + pairs)
    return np.array(
        [
            [sum_2 + 2 * sum_1 + sum_0 + squares, corner],
            [corner, s**2 * sum_2 + sum_2 - 2 * sum_1 + sum_0],
        ]
    )

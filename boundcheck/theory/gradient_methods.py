"""Gradient descent, heavy ball and Nesterov's method with their best step sizes for μ and L.

The formulas are sympy expressions, each written once: here, in `coefficients.py` or in `rates.py`. The functions below
evaluate them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from boundcheck.errors import InputError
from boundcheck.theory.arguments import count
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
    """μ and L as floats; raises InputError if μ > L or if they are out of range for double precision."""
    low, high = _real("mu", mu), _real("L", L)
    if low > high:
        raise InputError(f"mu = {low:g} > L = {high:g}; strong convexity cannot exceed smoothness, check both")
    if not (low > 1e-150 and high < 1e150 and high / low < 1e15):
        raise InputError(f"mu = {low:g}, L = {high:g}: out of range; scale the problem so that κ = L/μ < 1e15")
    return low, high


@dataclass(frozen=True)
class GradientDescent:
    """Gradient descent Φ = w − α∇₁ℓ with its contraction constant.

    Attributes
    ----------
    alpha : float
        The step α.
    q : float
        The contraction constant max(1 − αμ, αL − 1).
    kappa : float
        The condition number κ = L/μ.
    largest_alpha : float
        2/L; Φ contracts for every smaller step.
    """

    alpha: float
    q: float
    kappa: float
    largest_alpha: float

    @property
    def contracts(self) -> bool:
        """Whether Φ is a contraction: q < 1."""
        return self.q < 1


def gradient_descent(mu: float, L: float, alpha: float | None = None) -> GradientDescent:
    """Gradient descent with a given step, or with the best step 2/(μ+L), for which q = (κ−1)/(κ+1).

    Parameters
    ----------
    mu : float
        The strong convexity μ of ℓ, positive.
    L : float
        The smoothness L of ℓ, at least μ; L/μ has to be below 1e15.
    alpha : float, optional
        The step, positive; 2/(μ+L) by default.

    Returns
    -------
    GradientDescent
        The step and its contraction constant.

    Raises
    ------
    InputError
        If a value is not a number or out of its range, or if μ > L.

    Examples
    --------
    >>> import boundcheck as bc
    >>> best = bc.step_sizes.gradient_descent(1.0, 4.0)
    >>> best.alpha, round(best.q, 6), best.contracts
    (0.4, 0.6, True)
    """
    mu, L = _spectrum(mu, L)
    step = _number(ALPHA_STAR, mu=mu, L=L) if alpha is None else _real("alpha", alpha)
    contraction = _number(GRADIENT_DESCENT[q], alpha=step, mu=mu, L=L)
    return GradientDescent(step, contraction, L / mu, 2 / L)


@dataclass(frozen=True)
class Momentum:
    """A momentum method on quadratics with spectrum in [μ, L], from w_{−1} = w_0.

    w_{t+1} = w_t + β(w_t−w_{t−1}) − α∇ℓ, the gradient at w_t for heavy ball, at w_t + β(w_t−w_{t−1}) for Nesterov.

    Attributes
    ----------
    name : str
        "heavy-ball" or "nesterov".
    alpha : float
        The step α.
    beta : float
        The momentum β.
    kappa : float
        The condition number κ = L/μ.
    mu : float
        The strong convexity μ.
    rate : float
        The factor s by which each step reduces the error in the long run.
    """

    name: str
    alpha: float
    beta: float
    kappa: float
    mu: float
    rate: float

    def factor(self, t: np.ndarray | int) -> np.ndarray:
        """The exact worst case of ‖w_t−w*‖/‖w_0−w*‖.

        Parameters
        ----------
        t : int or ndarray of int
            The numbers of steps.

        Returns
        -------
        ndarray
            The factor at each t.
        """
        return self._bound(S_t, t)

    def slope(self, t: np.ndarray | int) -> np.ndarray:
        """The exact worst case of ‖D_H w_t‖/‖w_0−w*‖: how much a change of the Hessian moves w_t.

        Parameters
        ----------
        t : int or ndarray of int
            The numbers of steps.

        Returns
        -------
        ndarray
            The factor at each t.
        """
        return self._bound(dS_t, t)

    def _bound(self, symbol: sp.Symbol, t: np.ndarray | int) -> np.ndarray:
        values = {"t": count("t", t), "kappa": np.asarray(self.kappa), "alpha": np.asarray(self.alpha)}
        return evaluate(_BOUNDS[self.name].expand(symbol), values)

    def matrix(self, h: float) -> np.ndarray:
        """The matrix of one step on (w_t, w_{t−1}) − w* along one eigenvector of the Hessian.

        Parameters
        ----------
        h : float
            The eigenvalue.

        Returns
        -------
        ndarray of shape (2, 2)
            The matrix.
        """
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
    """Heavy ball with its optimal α = 4/(√L+√μ)², β = ((√κ−1)/(√κ+1))².

    Parameters
    ----------
    mu : float
        The strong convexity μ of ℓ, positive.
    L : float
        The smoothness L of ℓ, at least μ; L/μ has to be below 1e15.

    Returns
    -------
    Momentum
        The step, the momentum and the rate.

    Raises
    ------
    InputError
        If a value is not a number or out of its range, or if μ > L.

    Examples
    --------
    >>> import boundcheck as bc
    >>> method = bc.step_sizes.heavy_ball(1.0, 4.0)
    >>> round(method.alpha, 6), round(method.beta, 6), round(method.rate, 6)
    (0.444444, 0.111111, 0.333333)
    """
    return _momentum("heavy-ball", HEAVY_BALL_STEP, HEAVY_BALL_MOMENTUM, mu, L)


def nesterov(mu: float, L: float) -> Momentum:
    """Nesterov's method with α = 1/L, β = (√κ−1)/(√κ+1).

    Parameters
    ----------
    mu : float
        The strong convexity μ of ℓ, positive.
    L : float
        The smoothness L of ℓ, at least μ; L/μ has to be below 1e15.

    Returns
    -------
    Momentum
        The step, the momentum and the rate.

    Raises
    ------
    InputError
        If a value is not a number or out of its range, or if μ > L.

    Examples
    --------
    >>> import boundcheck as bc
    >>> method = bc.step_sizes.nesterov(1.0, 4.0)
    >>> round(method.alpha, 6), round(method.beta, 6), round(method.rate, 6)
    (0.25, 0.333333, 0.5)
    """
    return _momentum("nesterov", NESTEROV_STEP, NESTEROV_MOMENTUM, mu, L)

"""Steps of stochastic iterations: as the paper recommends, or such that our recursive bound is small."""

from __future__ import annotations

import math

import numpy as np

from boundcheck.errors import InputError
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.step_search import LONGEST, best_schedule
from boundcheck.theory.symbols import QUANTITIES


def advise(q: float, sigma_1: float, sigma_2: float, mse_0: float, t: int) -> StepSchedule:
    """The steps that Grazzi, Pontil and Salzo (2021) recommend after their Theorem 4.2.

    η = 1/(1+σ₂) until the bound of Theorem 4.1 is about its limit ησ₁/(1−q²), and then β/(γ+i) with β = 2/(1−q²) and
    γ = β(1+σ₂), which starts at the same step. "About" means at most twice the limit here: until then the decreasing
    part of the bound is larger than the limit.

    Parameters
    ----------
    q : float
        The contraction constant, below 1.
    sigma_1, sigma_2 : float
        The noise, V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖².
    mse_0 : float
        E‖w_0−w*‖².
    t : int
        The number of steps; a switch after them is left out.

    Returns
    -------
    StepSchedule
        The steps.

    Raises
    ------
    InputError
        If a number is negative or not finite, or t is negative.
    AssumptionError
        If q is not below 1.

    Examples
    --------
    >>> print(advise(0.5, sigma_1=0.3, sigma_2=1.0, mse_0=10.0, t=100))
    η = 0.5 for 9 steps, then η_i = 2.667/(5.333 + i)
    """
    _refuse(t, q=q, sigma_1=sigma_1, sigma_2=sigma_2, mse_0=mse_0)
    gap = (1 - q) * (1 + q)
    eta, beta = 1 / (1 + sigma_2), 2 / gap
    switch = _until(mse_0, eta * sigma_1 / gap, eta * gap)
    return StepSchedule.constant(eta) if switch >= t else StepSchedule(eta, int(switch), beta, beta / eta)


def _until(start: float, limit: float, gap: float) -> float:
    """The first i with (1−gap)^i (start−limit) ≤ limit; infinity if there is none."""
    if start <= 2 * limit:
        return 0
    if limit <= 0:
        return math.inf
    return 1 if gap >= 1 else max(0, math.ceil(math.log(limit / (start - limit)) / math.log1p(-gap)))


def advise_recursive(q: float, m_1: float, V_star: float, mse_0: float, t: int) -> StepSchedule:
    """Steps that make the bound of `stochastic_recursion.mean_square_distance` small at step t.

    The step that minimises the next ρ is η = (1−q)ρ/((1−q)²ρ + (√m₁√ρ+√V*)²), at most 1. It is about constant far from
    w*, and about 1/((1−q)i) near w*. No other steps give a smaller ρ_t, because ρ_{i+1} grows with ρ_i. The result is
    the schedule with the least ρ_t among schedules with a constant step first and β/(γ+i) later, on a grid of switches
    and of β. In the tests this ρ_t is within 10% of the least. A t above 20 000 gets the schedule for 20 000.

    Parameters
    ----------
    q : float
        The contraction constant, below 1.
    m_1 : float
        The bound on the noise of the derivative, √V[Φ̂(w)] ≤ √V* + √m₁‖w−w*‖.
    V_star : float
        V[Φ̂(w*)].
    mse_0 : float
        E‖w_0−w*‖².
    t : int
        The number of steps.

    Returns
    -------
    StepSchedule
        The steps.

    Raises
    ------
    InputError
        If a number is negative or not finite, or t is negative.
    AssumptionError
        If q is not below 1.
    """
    _refuse(t, q=q, m_1=m_1, V_star=V_star, mse_0=mse_0)
    horizon = min(t, LONGEST)
    greedy = best_steps(q, m_1, V_star, mse_0, horizon)
    if t == 0 or V_star == 0:
        return StepSchedule.constant(float(greedy[0]) if t else 1.0)
    root_m, root = math.sqrt(m_1), math.sqrt(V_star)

    def after(rho: np.ndarray, step: np.ndarray) -> np.ndarray:
        return np.asarray((1 - step + step * q) ** 2 * rho + (step * (root_m * np.sqrt(rho) + root)) ** 2)

    return best_schedule(greedy, 1 - q, horizon, mse_0, after, t > horizon)


def best_steps(q: float, m_1: float, V_star: float, mse_0: float, t: int) -> np.ndarray:
    """The step at each i that minimises the next ρ of the recursion.

    Parameters
    ----------
    q, m_1, V_star, mse_0 : float
        The constants, as for `advise_recursive`.
    t : int
        The number of steps.

    Returns
    -------
    ndarray
        η_0 … η_{t−1}; only η_0 if t is 0.
    """
    _refuse(t, q=q, m_1=m_1, V_star=V_star, mse_0=mse_0)
    gap, rho, root = 1 - q, mse_0, math.sqrt(V_star)
    steps = np.empty(max(t, 1))
    for i in range(len(steps)):
        noise = (math.sqrt(m_1 * rho) + root) ** 2
        curvature = gap * gap * rho + noise
        eta = min(1.0, gap * rho / curvature) if curvature > 0 else 1.0
        steps[i] = eta = max(eta, 1e-12)  # a step has to be positive, also at w*
        rho = (1 - eta + eta * q) ** 2 * rho + eta * eta * noise
    return steps


def _refuse(t: int, **numbers: float) -> None:
    if t < 0:
        raise InputError(f"t = {t} < 0; give the number of iterations, 0 or more")
    for name, value in numbers.items():
        QUANTITIES[name].check(value)

"""Bounds on E‖w_i−w*‖² along any steps: by our recursion, and by the two theorems of the paper, one for each phase.

The bound `stochastic-recursive` has the same recursion with a constant step; a test compares the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from boundcheck.errors import AssumptionError, InputError
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.catalogue import bounds
from boundcheck.theory.symbols import QUANTITIES

# A step consists of products, sums and roots of nonnegative numbers; its rounding is at most 9u, see docs/proofs.md.
UP = 1 + 16 * 2.0**-53
SMALLEST = 1e-290  # far above everything that may have underflowed


def mean_square_distance(
    steps: StepSchedule, t: int, *, q: float, m_1: float, V_star: float, mse_0: float, rigorous: bool = True
) -> np.ndarray:
    """Return ρ_0 … ρ_t with E‖w_i−w*‖² ≤ ρ_i, for w_{i+1} = w_i + η_i(Φ̂(w_i,ζ_i)−w_i).

    ρ_{i+1} = (1−η_i(1−q))²ρ_i + η_i²(√m₁√ρ_i + √V*)². With V* = m₁L_E²/(1−q)² and MSE_0 = L_E²/(1−q)² this also bounds
    E‖v_i−v(w)‖² for v_{i+1} = v_i + η_i(∂₁Φ̂(w,ζ_i)ᵀv_i + ∇₁E(w) − v_i) from v_0 = 0, for every w in the ball.

    Parameters
    ----------
    steps : StepSchedule
        The steps η_i.
    t : int
        The last iteration.
    q : float
        The contraction constant, below 1.
    m_1 : float
        The bound on the noise of the derivative, √V[Φ̂(w)] ≤ √V* + √m₁‖w−w*‖.
    V_star : float
        V[Φ̂(w*)].
    mse_0 : float
        E‖w_0−w*‖².
    rigorous : bool
        Whether to round up every step, which keeps every value an upper bound; True by default.

    Returns
    -------
    ndarray
        t + 1 values; infinite where they overflow.

    Raises
    ------
    InputError
        If a number is negative or not finite, or t is negative.
    AssumptionError
        If q is not below 1.

    Examples
    --------
    >>> from boundcheck.step_schedule import StepSchedule
    >>> mean_square_distance(StepSchedule.constant(1), 3, q=0.5, m_1=0, V_star=0, mse_0=1, rigorous=False)
    array([1.      , 0.25    , 0.0625  , 0.015625])
    """
    _refuse(t, q=q, m_1=m_1, V_star=V_star, mse_0=mse_0)
    up = UP if rigorous else 1.0
    root_at_solution = math.sqrt(V_star)
    rho = mse_0
    values = np.empty(t + 1)
    values[0] = rho
    for i in range(t):
        eta = steps.at(i)
        shrink = (1 - eta) + eta * q  # 1−η(1−q) without cancellation
        noise = eta * (math.sqrt(m_1 * rho) + root_at_solution)
        moves = rho > 0 or V_star > 0
        rho = (shrink * shrink * rho + noise * noise) * up
        if rigorous and moves and rho < SMALLEST:
            rho = SMALLEST
        values[i + 1] = rho
        if rho == values[i] and steps.switch is None:  # no step changes it any more
            values[i + 2 :] = rho
            break
    return values


@dataclass(frozen=True, eq=False)
class PaperDistance:
    """Bounds on E‖w_i−w*‖² by Theorems 4.1 and 4.2, for i = 0 … t.

    Attributes
    ----------
    values : ndarray
        The bounds; NaN where the condition of a theorem fails.
    reason : str
        Which condition fails, with its numbers; empty if none does.
    """

    values: np.ndarray
    reason: str


def mean_square_distance_of_paper(
    steps: StepSchedule, t: int, *, q: float, sigma_1: float, sigma_2: float, mse_0: float
) -> PaperDistance:
    """Bounds by Theorem 4.1 while the step is constant, and by Theorem 4.2 after that.

    Parameters
    ----------
    steps : StepSchedule
        The steps η_i.
    t : int
        The last iteration.
    q : float
        The contraction constant, below 1.
    sigma_1, sigma_2 : float
        The noise, V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖².
    mse_0 : float
        E‖w_0−w*‖².

    Returns
    -------
    PaperDistance
        t + 1 values, and the condition that fails, if any.

    Raises
    ------
    InputError
        If a number is negative or not finite, or t is negative.
    AssumptionError
        If q is not below 1.
    """
    _refuse(t, q=q, sigma_1=sigma_1, sigma_2=sigma_2, mse_0=mse_0)
    values = np.full(t + 1, np.nan)
    values[0] = mse_0
    known = {"q": q, "sigma_1": sigma_1, "sigma_2": sigma_2}
    switch = t if steps.switch is None else min(steps.switch, t)
    i = np.arange(t + 1)
    try:
        if switch > 0:
            first = bounds["stochastic-constant"]
            values[: switch + 1] = first.evaluate({**known, "mse_0": mse_0, "eta": steps.eta}, i[: switch + 1]).values
        if switch < t:
            start = {**known, "mse_0": float(values[switch]), "beta": steps.beta, "gamma": steps.gamma}
            values[switch:] = bounds["stochastic-decreasing"].evaluate(start, i[: t + 1 - switch]).values
            values[switch] = start["mse_0"]
    except AssumptionError as why:
        return PaperDistance(values, str(why))
    return PaperDistance(values, "")


def _refuse(t: int, **numbers: float) -> None:
    if t < 0:
        raise InputError(f"t = {t} < 0; give the number of iterations, 0 or more")
    for name, value in numbers.items():
        QUANTITIES[name].check(value)

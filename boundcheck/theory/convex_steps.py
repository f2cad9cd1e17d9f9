"""Steps that make the bound of `convex_recursion.convex_distance` small."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from boundcheck.errors import InputError
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.convex_recursion import STEEPEST, ConvexDescent
from boundcheck.theory.step_search import best_schedule

SWITCHES = 12  # how many numbers of constant steps to try
LONGEST = 2_000  # steps that are computed one by one; longer runs get the schedule for this many
SMALLEST_STEP = 1e-12  # a step has to be positive, also at w*
NEAR = 1.1  # consecutive steps usually differ by less than this factor
HALVINGS = 8  # bisection steps in that range


def advise_convex(descent: ConvexDescent, t: int) -> StepSchedule:
    """Recommend steps that make ρ_t small: constant first, β/(γ+i) later.

    The best steps make every next ρ as small as possible, because ρ_{i+1} grows with ρ_i. The result is the schedule
    with the smallest ρ_t on a grid of switches and of β around the best steps; each schedule has a constant step first
    and β/(γ+i) later. A t above 2000 gets the schedule for 2000.

    Parameters
    ----------
    descent : ConvexDescent
        The constants, and E‖w_0−w*‖².
    t : int
        The number of steps.

    Returns
    -------
    StepSchedule
        The steps.

    Raises
    ------
    InputError
        If t is negative.
    """
    if t < 0:
        raise InputError(f"t = {t} < 0; give the number of iterations, 0 or more")
    return _advised(descent, min(t, LONGEST), t > LONGEST)


@cache
def _advised(descent: ConvexDescent, t: int, longer: bool) -> StepSchedule:
    greedy = best_convex_steps(descent, t)
    if t == 0 or descent.V_star == 0:
        return StepSchedule.constant(float(greedy[0]))
    return best_schedule(greedy, descent.weak, t, descent.mse_0, descent.after, longer, SWITCHES)


def best_convex_steps(descent: ConvexDescent, t: int) -> np.ndarray:
    """The step at each i that minimises the next ρ of the recursion.

    The next ρ is a convex function of the step: a maximum of quadratic functions of η that open upwards. Its
    derivative is the derivative of the largest of these functions.

    Parameters
    ----------
    descent : ConvexDescent
        The constants, and E‖w_0−w*‖².
    t : int
        The number of steps.

    Returns
    -------
    ndarray
        η_0 … η_{t−1}; only η_0 if t is 0.
    """
    most = min(1.0, STEEPEST / descent.steep * (1 - 1e-12))
    rho, eta = descent.mse_0, most
    steps = np.empty(max(t, 1))
    for i in range(len(steps)):
        low, high = eta / NEAR, min(eta * NEAR, most)
        while low > most * SMALLEST_STEP and _slope(descent, rho, low) > 0:
            low, high = low / NEAR**3, low
        while high < most and _slope(descent, rho, high) < 0:
            low, high = high, min(high * NEAR**3, most)
        if _slope(descent, rho, high) > 0:
            for _ in range(HALVINGS):
                middle = math.sqrt(low * high)
                low, high = (low, middle) if _slope(descent, rho, middle) > 0 else (middle, high)
        steps[i] = eta = high
        rho = descent.after_one(rho, eta)
    return steps


def _slope(descent: ConvexDescent, rho: float, eta: float) -> float:
    """Half the derivative of the next ρ by η, where y is the mean of α⟨∇₁ℓ(w), w−w*⟩ at the maximum of the next ρ."""
    above = descent.above(rho, eta)
    y = descent.weak * rho + above
    noise = math.sqrt(descent.noisy * (descent.least * rho + above)) + math.sqrt(descent.V_star)
    return eta * (descent.both * y - descent.weak * descent.alpha * descent.L * rho + noise * noise) - y

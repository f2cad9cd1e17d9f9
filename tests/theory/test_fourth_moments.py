"""Fourth moments against the exact ones of a small finite sum, by enumeration of all draws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from boundcheck.errors import InputError
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.fourth_moments import fourth_moments
from boundcheck.theory.stochastic_recursion import mean_square_distance

T = 7
STEPS = {"constant": StepSchedule.constant(0.8), "decreasing": StepSchedule.decreasing(2.0, 2.5)}


def _exact(slopes: list[float], shifts: list[float], steps: StepSchedule, start: float, power: int) -> np.ndarray:
    """E|w_i − w*|^power of w ↦ a_j w + b_j, every draw of j equally likely."""
    w_star = np.mean(shifts) / (1 - np.mean(slopes))
    moments = np.zeros(T + 1)
    for draws in itertools.product(range(len(slopes)), repeat=T):
        w = start
        for i in range(T + 1):
            moments[i] += abs(w - w_star) ** power
            if i < T:
                w += steps.at(i) * (slopes[draws[i]] * w + shifts[draws[i]] - w)
    return moments / len(slopes) ** T


def _farthest(slopes: list[float], shifts: list[float], steps: StepSchedule, start: float, w_star: float) -> float:
    """The largest distance from w* of any path."""
    points, largest = [start], abs(start - w_star)
    for i in range(T):
        eta = steps.at(i)
        points = [w + eta * (a * w + b - w) for w in points for a, b in zip(slopes, shifts, strict=True)]
        largest = max(largest, *(abs(w - w_star) for w in points))
    return largest * (1 + 1e-12)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize(
    ("slopes", "shifts", "start"),
    [([0.2, 0.8], [1.0, -1.0], 3.0), ([0.5, 0.5], [2.0, -2.0], 0.0), ([-0.4, 0.9], [0.0, 0.0], 1.0)],
)
def test_above_the_exact_moments_and_not_far(
    slopes: list[float], shifts: list[float], start: float, steps: StepSchedule
) -> None:
    q = abs(float(np.mean(slopes)))
    w_star = float(np.mean(shifts) / (1 - np.mean(slopes)))
    at_solution = np.array([a * w_star + b - w_star for a, b in zip(slopes, shifts, strict=True)])
    spread = np.array(slopes) - np.mean(slopes)
    m_1, V_star = float((spread**2).mean()), float((at_solution**2).mean())
    away = abs(start - w_star)
    rho = mean_square_distance(steps, T, q=q, m_1=m_1, V_star=V_star, mse_0=away**2)
    sizes = {"D_0": float(abs(at_solution).max()), "D_1": float(abs(spread).max())}
    F = fourth_moments(steps, rho, q=q, m_1=m_1, V_star=V_star, start=away, **sizes)
    exact = _exact(slopes, shifts, steps, start, 4)
    assert (exact <= F).all()
    if m_1 == 0 or V_star == 0:  # one step loses at most the factor 3 of E‖ξ‖⁴ where draws have one size
        assert F[1] <= 3.001 * exact[1]
    R = _farthest(slopes, shifts, steps, start, w_star)
    inside = fourth_moments(steps, rho, q=q, m_1=m_1, V_star=V_star, start=away, radius=R, **sizes)
    assert (exact <= inside).all()
    assert (inside <= np.minimum(F, R**2 * rho) * (1 + 1e-12)).all()


def test_no_noise_is_the_fourth_power_of_the_distance() -> None:
    steps = StepSchedule.constant(0.5)
    rho = mean_square_distance(steps, 4, q=0.6, m_1=0, V_star=0, mse_0=4, rigorous=False)
    F = fourth_moments(steps, rho, q=0.6, m_1=0, V_star=0, D_0=0, D_1=0, start=2)
    assert np.sqrt(F) == pytest.approx(rho, rel=1e-12)


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="D_0 = nan"):
        fourth_moments(STEPS["constant"], np.ones(2), q=0.5, m_1=0, V_star=0, D_0=math.nan, D_1=0, start=1)

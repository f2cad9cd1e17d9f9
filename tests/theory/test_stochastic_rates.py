"""Rates of the linear system against exact moments of numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from boundcheck.constants import Constants
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.stochastic_rates import mean_of_v, neumann_mean, neumann_sigma, recursive_sigma

B = 1.5  # ∇₁E
LONGEST = 6


def _constants(slopes: list[float]) -> Constants:
    mean = float(np.mean(slopes))
    return Constants.given(q=abs(mean), m_1=float(np.var(slopes)), L_E=B)


def _neumann(slopes: list[float], K: int) -> np.ndarray:
    """Every value of K·ŷ_1⋯ŷ_p·b, all draws and lengths p < K equally likely."""
    values = []
    for draws in itertools.product(slopes, repeat=max(K - 1, 0)):
        values += [K * B * float(np.prod(draws[:p])) for p in range(K)]
    return np.array(values)


@pytest.mark.parametrize("slopes", [[0.2, 0.6], [0.9, -0.1], [-0.5, -0.5]])
def test_neumann_series(slopes: list[float]) -> None:
    solution = B / (1 - float(np.mean(slopes)))
    sigma, mean = (rate(_constants(slopes), LONGEST).values for rate in (neumann_sigma, neumann_mean))
    for K in range(1, LONGEST + 1):
        values = _neumann(slopes, K)
        second, first = float(((values - solution) ** 2).mean()), (float(values.mean()) - solution) ** 2
        assert second <= sigma[K]
        assert first <= mean[K]
        if np.mean(slopes) > 0:  # then ‖v(w)‖ = L_E/(1 − q), and the mean is attained
            assert mean[K] <= first * (1 + 1e-9)
            assert sigma[K] <= second + values.mean() ** 2 * (1 + 1e-9)  # E v² in place of V[v]


def test_mean_of_the_iteration_has_no_noise() -> None:
    slopes, steps = [0.3, 0.7], StepSchedule.decreasing(1.0, 1.5)
    constants, solution = _constants(slopes), B / 0.5
    v, rate = 0.0, mean_of_v(constants, steps, LONGEST).values
    sigma = recursive_sigma(constants, steps, LONGEST).values
    for i in range(LONGEST + 1):
        assert rate[i] == pytest.approx((v - solution) ** 2, rel=1e-9)
        assert rate[i] <= sigma[i]
        v += steps.at(i) * (0.5 * v + B - v)

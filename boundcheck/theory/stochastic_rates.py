"""ρ_t and σ_k along the steps of a run: the smaller of two recursions, and the constants that it uses.

One recursion is that of `stochastic-recursive`, for every map; the other is that of `sgd-convex`, for gradient descent.
For a Neumann series of random length there is one formula (docs/proofs.md#stochastic-neumann). The mean of v_k has its
own rate, without noise (docs/proofs.md#stochastic-bias).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from boundcheck.constants import Constants
from boundcheck.errors import AssumptionError, MissingConstantError
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.convex_recursion import ConvexDescent, convex_distance
from boundcheck.theory.stochastic_recursion import mean_square_distance

OF_RHO, OF_SIGMA = ("q", "m_1", "V_star", "mse_0"), ("q", "m_1", "L_E")
OF_MEAN = ("q", "L_E")
OF_CURVATURE = ("alpha", "mu", "L", "mu_ell_hat", "L_ell_hat")
OF_CONVEX_RHO, OF_CONVEX_SIGMA = (*OF_CURVATURE, "V_star", "mse_0"), (*OF_CURVATURE, "m_1", "L_E")

UP = 1 + 1e-14  # a few roundings


@dataclass(frozen=True, eq=False)
class DistanceBounds:
    """Bounds on a mean square distance after 0, 1, 2, … steps, with the names of the constants in them."""

    values: np.ndarray
    names: tuple[str, ...]


def recursive_rho(constants: Constants, steps: StepSchedule, t: int) -> DistanceBounds:
    """ρ_0 … ρ_t for any contraction."""
    value = _contraction(constants, OF_RHO)
    q, m_1, V_star, mse_0 = (value[name] for name in OF_RHO)
    return DistanceBounds(mean_square_distance(steps, t, q=q, m_1=m_1, V_star=V_star, mse_0=mse_0), OF_RHO)


def recursive_sigma(constants: Constants, steps: StepSchedule, k: int) -> DistanceBounds:
    """σ_0 … σ_k for any contraction."""
    value = _contraction(constants, OF_SIGMA)
    size = _size(value) ** 2
    noise = value["m_1"] * size * UP
    return DistanceBounds(
        mean_square_distance(steps, k, q=value["q"], m_1=value["m_1"], V_star=noise, mse_0=size), OF_SIGMA
    )


def descent_of(constants: Constants) -> ConvexDescent:
    """The constants of gradient descent for ρ_t."""
    return ConvexDescent(**_numbers(constants, OF_CONVEX_RHO))


def descent_at_linear_system(constants: Constants) -> ConvexDescent:
    """The constants of gradient descent for σ_k."""
    value = _numbers(constants, OF_CONVEX_SIGMA)
    L_E, m_1 = value.pop("L_E"), value.pop("m_1")
    return ConvexDescent(**value, V_star=0.0, mse_0=0.0).at_linear_system(L_E, m_1)


def convex_rho(constants: Constants, steps: StepSchedule, t: int) -> DistanceBounds:
    """ρ_0 … ρ_t for gradient descent on convex examples."""
    return DistanceBounds(convex_distance(steps, t, descent_of(constants)), OF_CONVEX_RHO)


def convex_sigma(constants: Constants, steps: StepSchedule, k: int) -> DistanceBounds:
    """σ_0 … σ_k for gradient descent on convex examples."""
    return DistanceBounds(convex_distance(steps, k, descent_at_linear_system(constants)), OF_CONVEX_SIGMA)


def mean_of_v(constants: Constants, steps: StepSchedule, k: int) -> DistanceBounds:
    """Squares of bounds on ‖E v_k − v(w)‖: the mean follows the iteration without noise."""
    value = _contraction(constants, OF_MEAN)
    size = _size(value) ** 2
    return DistanceBounds(mean_square_distance(steps, k, q=value["q"], m_1=0.0, V_star=0.0, mse_0=size), OF_MEAN)


def neumann_sigma(constants: Constants, k: int) -> DistanceBounds:
    """Bounds on E‖v − v(w)‖² for v = K·∂₁Φ̂(ζ_1)ᵀ⋯∂₁Φ̂(ζ_p)ᵀ∇₁E, p uniform below K, for K = 0 … k."""
    value = _contraction(constants, OF_SIGMA)
    lengths = np.arange(k + 1)
    growth = (value["q"] ** 2 + value["m_1"]) * UP
    with np.errstate(over="ignore"):
        second = lengths * value["L_E"] ** 2 * np.concatenate([[0.0], np.cumsum(growth ** lengths[:-1])])
    return DistanceBounds((neumann_mean(constants, k).values + second) * UP, OF_SIGMA)


def neumann_mean(constants: Constants, k: int) -> DistanceBounds:
    """Squares of bounds on ‖E v − v(w)‖ = ‖(Yᵀ)^K v(w)‖, for K = 0 … k."""
    value = _contraction(constants, OF_MEAN)
    return DistanceBounds((_size(value) * value["q"] ** np.arange(k + 1)) ** 2 * UP, OF_MEAN)


def _size(value: Mapping[str, float]) -> float:
    """An upper bound on ‖v(w)‖."""
    return value["L_E"] / (1 - value["q"]) * UP


Make = Callable[[Constants, StepSchedule, int], DistanceBounds]
RHO: tuple[Make, ...] = (recursive_rho, convex_rho)
SIGMA: tuple[Make, ...] = (recursive_sigma, convex_sigma)
OF_MEANS = ("sid-bias", "sid-variance-of-mean")  # the bounds that need E v_k only


def smaller(ways: tuple[Make, ...], constants: Constants, steps: StepSchedule, n: int) -> DistanceBounds:
    """The smaller bound at every point, among the bounds that can be computed. Proved bounds come before estimates.

    Parameters
    ----------
    ways : tuple of callable
        `RHO` or `SIGMA`, or a part of them.
    constants : Constants
        The constants.
    steps : StepSchedule
        The steps.
    n : int
        The number of steps.

    Returns
    -------
    DistanceBounds
        n + 1 values, and the constants of every bound that is the smaller one somewhere.

    Raises
    ------
    MissingConstantError, AssumptionError
        If no bound can be computed; the error of the first one.
    """
    rates: list[DistanceBounds] = []
    reason: Exception | None = None
    for way in ways:
        try:
            rates.append(way(constants, steps, n))
        except (MissingConstantError, AssumptionError) as why:
            reason = reason or why
    if not rates:
        raise reason or MissingConstantError("no bound on a mean square distance is known", [])
    proved = [rate for rate in rates if all(constants[name].is_safe for name in rate.names)]
    rates = proved or rates
    if len(rates) == 1:
        return rates[0]
    first, second = rates
    better = second.values[1:] < first.values[1:]
    if better.all():
        return second
    if not better.any():
        return first
    names = dict.fromkeys((*first.names, *second.names))
    return DistanceBounds(np.minimum(first.values, second.values), tuple(names))


def _numbers(constants: Constants, names: tuple[str, ...]) -> dict[str, float]:
    missing = [name for name in names if name not in constants]
    if missing:
        raise MissingConstantError(f"{missing[0]} is not known", missing)
    return {name: constants[name].value for name in names}


def _contraction(constants: Constants, names: tuple[str, ...]) -> Mapping[str, float]:
    value = _numbers(constants, names)
    if value["q"] >= 1:
        raise AssumptionError(f"q = {value['q']:.4g} ≥ 1, so Φ is not known to be a contraction on the ball")
    return value

"""Bounds on fourth moments along stochastic iterations. They limit the error of a mean of squares over n runs.

    w_{i+1} = w_i + η_i(Φ̂(w_i, ζ_i) − w_i),   ξ_i = Φ̂(w_i, ζ_i) − Φ(w_i),   r_i = ‖w_i − w*‖,   c = 1 − η(1−q)

Given w_i, with ‖u‖ ≤ c·r_i for u = (1−η)(w_i−w*) + η(Φ(w_i)−w*),

    E‖u+ηξ‖⁴ ≤ ‖u‖⁴ + 6η²‖u‖²E‖ξ‖² + 4η³‖u‖E‖ξ‖³ + η⁴E‖ξ‖⁴ ≤ ‖u‖⁴ + 8η²‖u‖²E‖ξ‖² + 3η⁴E‖ξ‖⁴,

as E⟨u,ξ⟩ = 0 and E‖ξ‖³ ≤ (E‖ξ‖²E‖ξ‖⁴)^½. The noise has √E‖ξ‖² ≤ √V* + √m₁r_i, and ‖ξ‖ ≤ D₀ + D₁r_i for every draw.
So with Minkowski in L², for bounds ρ_i ≥ E r_i² and F_i ≥ E r_i⁴,

    F_{i+1} = c⁴F_i + 8η²c²(√V*√ρ_i + √m₁√F_i)² + 3η⁴(D₀√V* + (D₀√m₁ + D₁√V*)√ρ_i + D₁√m₁√F_i)².

If r_i ≤ R for every draw, E r_i⁴ ≤ R²ρ_i as well. The linear system is the same with ξ = (Ŷ−Y)ᵀv.
"""

from __future__ import annotations

import math

import numpy as np

from boundcheck.errors import InputError
from boundcheck.step_schedule import StepSchedule

UP = 1 + 64 * 2.0**-53  # a step has about thirty roundings of nonnegative numbers
SMALLEST = 1e-290  # far above everything that may have underflowed


def fourth_moments(
    steps: StepSchedule, rho: np.ndarray, *, q: float, m_1: float, V_star: float, D_0: float, D_1: float,
    start: float, radius: float = math.inf,
) -> np.ndarray:  # fmt: skip
    """F_0 … F_t with E‖w_i−w*‖⁴ ≤ F_i.

    Parameters
    ----------
    steps : StepSchedule
        The steps η_i.
    rho : ndarray
        ρ_0 … ρ_t, bounds on E‖w_i−w*‖².
    q : float
        The contraction constant, below 1.
    m_1, V_star : float
        The noise: √V[Φ̂(w)] ≤ √V* + √m₁‖w−w*‖.
    D_0, D_1 : float
        The size of the noise: ‖Φ̂(w)−Φ(w)‖ ≤ D₀ + D₁‖w−w*‖ for every draw.
    start : float
        ‖w_0−w*‖, not random.
    radius : float
        An upper bound on ‖w_i−w*‖ for every draw; infinite by default.

    Returns
    -------
    ndarray
        As many values as in `rho`; infinite where they overflow.

    Raises
    ------
    InputError
        If a number is negative or not a number.

    Examples
    --------
    >>> import numpy as np
    >>> from boundcheck.step_schedule import StepSchedule
    >>> rho = np.array([1.0, 0.25, 0.0625])
    >>> F = fourth_moments(StepSchedule.constant(1), rho, q=0.5, m_1=0, V_star=0, D_0=0, D_1=0, start=1)
    >>> F.round(8)
    array([1.        , 0.0625    , 0.00390625])
    """
    numbers = {"q": q, "m_1": m_1, "V_star": V_star, "D_0": D_0, "D_1": D_1, "start": start, "radius": radius}
    for name, value in numbers.items():
        if not value >= 0:
            raise InputError(f"{name} = {value} is negative or not a number; give a number from 0")
    root_V, root_m = math.sqrt(V_star), math.sqrt(m_1)
    values = np.empty(len(rho))
    F = values[0] = start**4 * UP
    for i in range(len(rho) - 1):
        eta, root_rho, root_F = steps.at(i), math.sqrt(float(rho[i])), math.sqrt(F)
        c = (1 - eta) + eta * q
        mixed = root_V * root_rho + root_m * root_F
        noise = D_0 * root_V + (D_0 * root_m + D_1 * root_V) * root_rho + D_1 * root_m * root_F
        try:
            F = (c**4 * F + 8 * (eta * c * mixed) ** 2 + 3 * (eta * eta * noise) ** 2) * UP
        except OverflowError:
            F = math.inf
        F = max(F, SMALLEST) if rho[i + 1] > 0 else F
        cap = radius**2 * float(rho[i + 1]) * UP if math.isfinite(radius) else math.inf
        F = values[i + 1] = min(F, cap)
    return values

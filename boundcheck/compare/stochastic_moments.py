"""Bounds on the mean squares of the numbers that are averaged over runs. They give proved and tighter upper ends.

With F ≥ E‖w_t−w*‖⁴ and G ≥ E‖v_k−v(w)‖⁴ for every w of the ball, and the three parts of g − ∇f in the proof of
`sid-orthogonal`, Minkowski in L⁴ gives

    (E‖g−∇f‖⁴)^¼ ≤ c₁F^¼ + (L_Φ + ν₂F^¼)G^¼ + z(L_E/(1−q) + G^¼)

where z ≥ ‖∂₂Φ̂ − ∂₂Φ‖ for every draw. Without its first term the right-hand side bounds g − E[g | w_t, v(w_t)].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from boundcheck.compare.stochastic_bounds import BoundsOnGrid
from boundcheck.constants import Constants
from boundcheck.errors import BoundcheckError
from boundcheck.side import Side
from boundcheck.theory.fourth_moments import fourth_moments

NEEDED = ("q", "m_1", "V_star", "mse_0", "L_E", "L_Phi_hat", "L_Phi_star", "nu_1", "nu_2", "eta_1", "eta_2", "W")


@dataclass(frozen=True)
class NoiseSizes:
    """Bounds for single draws: on ‖Φ̂(w*)−w*‖, on ‖∂₂Φ̂−∂₂Φ‖, and the radius of the ball; None if not proved."""

    noise: float | None
    spread: float | None
    radius: float | None


@dataclass(frozen=True, eq=False)
class MeanSquares:
    """Upper bounds on the mean squares of the numbers of one run, at each point of the grid.

    Attributes
    ----------
    error : ndarray of shape (points,)
        The bound for ‖g − ∇f‖².
    given : ndarray of shape (points,)
        The bound for ½‖g − g'‖², where g' has the same w_t.
    distance : ndarray of shape (points,)
        The bound for ‖w_t − w*‖².
    """

    error: np.ndarray
    given: np.ndarray
    distance: np.ndarray


def mean_squares(grid: BoundsOnGrid, sizes: NoiseSizes) -> MeanSquares:
    """The bounds at every point; infinite if a constant is missing or only estimated."""
    constants, nothing = grid.case.constants, np.full(len(grid.t), np.inf)
    unknown = MeanSquares(nothing, nothing, nothing)
    if not _proved(constants) or sizes.noise is None or sizes.spread is None or grid.case.unbiased.doubt:
        return unknown
    value = {name: constants[name].value for name in NEEDED}
    radius = math.inf if sizes.radius is None else sizes.radius
    q, size = value["q"], value["L_E"] / (1 - value["q"])
    spread_of_slope = value["L_Phi_hat"] + q
    try:
        F = fourth_moments(
            grid.case.steps, grid.rho, q=q, m_1=value["m_1"], V_star=value["V_star"], D_0=sizes.noise,
            D_1=spread_of_slope, start=math.sqrt(value["mse_0"]), radius=radius,
        )[grid.t]  # fmt: skip
        if grid.method == "neumann":
            v = _neumann(grid.k, q, value) + size
        else:
            G = fourth_moments(
                grid.case.steps_v, grid.sigma, q=q, m_1=value["m_1"], V_star=value["m_1"] * size**2,
                D_0=spread_of_slope * size, D_1=spread_of_slope, start=size,
            )[grid.k]  # fmt: skip
            v = G**0.25
    except BoundcheckError:
        return unknown
    w = F**0.25
    c_1 = value["eta_2"] + value["eta_1"] * value["W"] + (value["nu_2"] + value["nu_1"] * value["W"]) * size
    given = (value["L_Phi_star"] + value["nu_2"] * w) * v + sizes.spread * (size + v)
    error = c_1 * w + given
    rounding = 1 + 1e-12
    return MeanSquares(error**4 * rounding, 4 * given**4 * rounding, F * rounding)


def _neumann(k: np.ndarray, q: float, value: Mapping[str, float]) -> np.ndarray:
    """A bound on (E‖v‖⁴)^¼ for v = K·∂₁Φ̂ᵀ⋯∂₁Φ̂ᵀ∇₁E: a factor multiplies the fourth moment by at most L_Φ̂²(q² + m₁)."""
    growth = value["L_Phi_hat"] ** 2 * (q * q + value["m_1"]) * (1 + 1e-14)
    with np.errstate(over="ignore"):
        sums = np.array([float(np.sum(growth ** np.arange(int(length)))) for length in k])
        moment: np.ndarray = (k**3.0 * sums) ** 0.25 * value["L_E"] * (1 + 1e-13)
    return moment


def _proved(constants: Constants) -> bool:
    """Whether all needed constants are known and proved, not only with some probability."""
    some = [constants.get(name) for name in NEEDED]
    return all(c is not None and c.side in (Side.EXACT, Side.UPPER) for c in some)

"""A bound on E‖w_i−w*‖² along any steps of gradient descent, if the noise is large only where ℓ is curved.

The bound `sgd-convex` has the same recursion with a constant step; a test compares the two.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from boundcheck.errors import AssumptionError, InputError
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.symbols import QUANTITIES

# 16u times the value covers the rounding of sums and products of nonnegative numbers, and 64u times ρ covers 1−ηαμ and
# the subtraction: see docs/proofs.md. The maximiser is the least accurate number, but its error enters squared.
UP = 1 + 16 * 2.0**-53
UP_OF_RHO = 64 * 2.0**-53
SMALLEST = 1e-290  # far above everything that may have underflowed
STEEPEST = 2 - 1e-6


@dataclass(frozen=True)
class ConvexDescent:
    """Gradient descent Φ̂ = w − α∇₁ℓ̂ whose noise is large only where ℓ is curved.

    Attributes
    ----------
    alpha : float
        The step α of the map.
    mu, L : float
        The strong convexity and the smoothness of ℓ.
    mu_ell_hat, L_ell_hat : float
        V[∇₁ℓ̂(w)−∇₁ℓ̂(w')] ≤ L̂⟨∇₁ℓ(w)−∇₁ℓ(w'), w−w'⟩ − L̂μ̂‖w−w'‖² over the ball.
    V_star : float
        V[Φ̂(w*)].
    mse_0 : float
        E‖w_0−w*‖².

    Raises
    ------
    InputError
        If a number is not in its domain.
    AssumptionError
        If μ > L or μ̂ > μ.
    """

    alpha: float
    mu: float
    L: float
    mu_ell_hat: float
    L_ell_hat: float
    V_star: float
    mse_0: float

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            QUANTITIES[name].check(value)
        if self.mu > self.L:
            raise AssumptionError(f"mu = {self.mu:.4g} > L = {self.L:.4g}; check mu and L")
        if self.mu_ell_hat > self.mu:
            raise AssumptionError(f"mu_ell_hat = {self.mu_ell_hat:.4g} > mu = {self.mu:.4g}; take μ at least μ̂")

    @cached_property
    def weak(self) -> float:
        """αμ."""
        return self.alpha * self.mu

    @cached_property
    def both(self) -> float:
        """α(μ+L)."""
        return self.alpha * (self.mu + self.L)

    @cached_property
    def noisy(self) -> float:
        """αL̂."""
        return self.alpha * self.L_ell_hat

    @cached_property
    def least(self) -> float:
        """α(μ−μ̂)."""
        return self.alpha * (self.mu - self.mu_ell_hat)

    @cached_property
    def most(self) -> float:
        """α(L−μ)."""
        return self.alpha * (self.L - self.mu)

    @cached_property
    def steep(self) -> float:
        """α(μ+L+L̂); η times this has to be below 2."""
        return self.alpha * (self.mu + self.L + self.L_ell_hat)

    def after(self, rho: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """The bounds after steps of sizes η from the bounds ρ; infinite where ηα(μ+L+L̂) is not below 2.

        Parameters
        ----------
        rho : ndarray
            Upper bounds on E‖w_i−w*‖².
        eta : ndarray
            The steps.

        Returns
        -------
        ndarray
            Upper bounds on E‖w_{i+1}−w*‖², up to rounding.
        """
        left = 2 - eta * self.steep
        least = self.least * rho
        worst = self.noisy * self.V_star * (eta / np.maximum(left, 2 - STEEPEST)) ** 2
        above = np.minimum(self.most * rho, np.maximum(0.0, worst - least))
        noise = eta * (np.sqrt(self.noisy * (least + above)) + math.sqrt(self.V_star))
        value = (1 - eta * self.weak) ** 2 * rho + noise * noise - eta * (2 - eta * self.both) * above
        return np.where(left >= 2 - STEEPEST, value, np.inf)

    def after_one(self, rho: float, eta: float) -> float:
        """The same as `after` for one ρ and one η with ηα(μ+L+L̂) < 2, many times faster.

        Parameters
        ----------
        rho : float
            An upper bound on E‖w_i−w*‖².
        eta : float
            The step.

        Returns
        -------
        float
            An upper bound on E‖w_{i+1}−w*‖², up to rounding.
        """
        above = self.above(rho, eta)
        noise = eta * (math.sqrt(self.noisy * (self.least * rho + above)) + math.sqrt(self.V_star))
        return (1 - eta * self.weak) ** 2 * rho + noise * noise - eta * (2 - eta * self.both) * above

    def above(self, rho: float, eta: float) -> float:
        """The mean of α⟨∇₁ℓ(w), w−w*⟩ minus αμρ at the maximum of the next ρ.

        Parameters
        ----------
        rho : float
            An upper bound on E‖w_i−w*‖².
        eta : float
            The step.

        Returns
        -------
        float
            A number from 0 to α(L−μ)ρ.
        """
        worst = self.noisy * self.V_star * (eta / (2 - eta * self.steep)) ** 2
        return min(self.most * rho, max(0.0, worst - self.least * rho))

    def at_linear_system(self, L_E: float, m_1: float) -> ConvexDescent:
        """The constants of v_{i+1} = v_i + η_i(∂₁Φ̂(w,ζ_i)ᵀv_i + ∇₁E(w) − v_i) from v_0 = 0, for any w in the ball.

        V[Φ̂(w*)] becomes α²V[∇²₁ℓ̂ v], which is at most L̂L_E² max (h−μ̂)/h² over h ≥ μ, and at most m₁‖v‖²; ‖w_0−w*‖
        becomes ‖v‖ ≤ L_E/(αμ).

        Parameters
        ----------
        L_E : float
            An upper bound on ‖∇₁E‖ on the ball.
        m_1 : float
            The bound on the noise of ∂₁Φ̂.

        Returns
        -------
        ConvexDescent
            The constants, with ‖v(w)‖² ≤ `mse_0`; `convex_distance` of them bounds E‖v_i−v(w)‖².
        """
        mu, apart = self.mu, self.mu_ell_hat
        size = (L_E / (self.alpha * mu)) ** 2 * UP
        largest = 1 / (4 * apart) if mu < 2 * apart else (mu - apart) / (mu * mu)
        V = min(self.L_ell_hat * L_E * L_E * largest, m_1 * size) * UP
        return replace(self, V_star=V, mse_0=size)


def convex_distance(steps: StepSchedule, t: int, descent: ConvexDescent, *, rigorous: bool = True) -> np.ndarray:
    """Return ρ_0 … ρ_t with E‖w_i−w*‖² ≤ ρ_i, for w_{i+1} = w_i + η_i(Φ̂(w_i,ζ_i)−w_i) and Φ̂ = w−α∇₁ℓ̂.

    Parameters
    ----------
    steps : StepSchedule
        The steps η_i.
    t : int
        The last iteration.
    descent : ConvexDescent
        The constants, and E‖w_0−w*‖².
    rigorous : bool
        Whether to round up every step, which keeps every value an upper bound; True by default.

    Returns
    -------
    ndarray
        t + 1 values; infinite where they overflow.

    Raises
    ------
    InputError
        If t is negative.
    AssumptionError
        If a step has ηα(μ+L+L̂) ≥ 2.

    Examples
    --------
    >>> from boundcheck.step_schedule import StepSchedule
    >>> quiet = ConvexDescent(alpha=1, mu=0.5, L=1, mu_ell_hat=0, L_ell_hat=0, V_star=0, mse_0=1)
    >>> convex_distance(StepSchedule.constant(1), 3, quiet, rigorous=False)
    array([1.      , 0.25    , 0.0625  , 0.015625])
    """
    if t < 0:
        raise InputError(f"t = {t} < 0; give the number of iterations, 0 or more")
    values = np.empty(t + 1)
    values[0] = rho = descent.mse_0
    for i in range(t):
        eta = steps.at(i)
        if not 2 - eta * descent.steep >= 2 - STEEPEST:
            raise AssumptionError(
                f"η_{i}·α(μ+L+L̂) = {eta * descent.steep:.7g}, and has to be below 2; "
                f"take steps below {STEEPEST / descent.steep:.4g}"
            )
        moves = rho > 0 or descent.V_star > 0
        following = descent.after_one(rho, eta)
        if rigorous:
            following = following * UP + UP_OF_RHO * rho
            if moves and following < SMALLEST:
                following = SMALLEST
        values[i + 1] = rho = following
        if rho == values[i] and steps.switch is None:  # no step changes it any more
            values[i + 2 :] = rho
            break
    return values

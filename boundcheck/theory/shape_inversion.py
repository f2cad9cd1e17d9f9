"""Find the least t and k at which a bound is small enough, for the two shapes of bounds with a closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import lambertw

from boundcheck.errors import InputError
from boundcheck.theory.iteration_search import Choice, Goal, settle

WIDEST = 2**24  # half of the widest window of t to search around the closed form


@dataclass(frozen=True)
class HumpNumbers:
    """The coefficients of level·rate^t + slope·t·rate^(t−1) as numbers."""

    level: float
    slope: float
    rate: float

    @property
    def solvable(self) -> bool:
        """Whether the closed form works: all numbers are finite, and the rate does not round to 1."""
        return all(map(math.isfinite, (self.level, self.slope, self.rate))) and self.rate < 1


@dataclass(frozen=True)
class SplitNumbers:
    """The coefficients of lower·rate_t^t + upper·rate_k^k − cross·rate_t^t·rate_k^k as numbers."""

    lower: float
    upper: float
    cross: float
    rate_t: float
    rate_k: float

    @property
    def solvable(self) -> bool:
        """Whether the closed form works: all numbers are finite, and no rate rounds to 1."""
        numbers = (self.lower, self.upper, self.cross, self.rate_t, self.rate_k)
        return all(map(math.isfinite, numbers)) and self.rate_t < 1 and self.rate_k < 1

    @property
    def decay_t(self) -> float:
        """ln(1/rate_t)"""
        return _decay(self.rate_t)

    @property
    def decay_k(self) -> float:
        """ln(1/rate_k)"""
        return _decay(self.rate_k)

    def least_k(self, ts: np.ndarray, eps: float) -> np.ndarray:
        """The least real k for every t, from an equation that is linear in rate_k^k; infinity if no k is enough."""
        left = np.power(self.rate_t, ts)
        room, weight = eps - self.lower * left, self.upper - self.cross * left
        if self.rate_k == 0:  # one step solves the system
            return np.where(room >= weight, 0.0, np.where(room >= 0, 1.0, np.inf))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(room >= weight, 0.0, np.where(room > 0, np.log(weight / room) / self.decay_k, np.inf))


def _decay(rate: float) -> float:
    return -math.log(rate) if rate > 0 else math.inf


# --- a hump ----------------------------------------------------------------------------------------------------------


def choose_on_hump(goal: Goal, hump: HumpNumbers) -> Choice:
    """The smallest t: the closed form gives a real number, and a search corrects it to a whole number."""
    if goal.reached(goal.t_min, 0):
        return Choice(goal.t_min, None, "closed form")
    guess = float(goal.t_min) if hump.rate <= 0 else _real_t(goal, hump)
    return Choice(settle(lambda t: goal.reached(t, 0), goal.t_min, guess), None, "closed form (Lambert W)")


def _real_t(goal: Goal, hump: HumpNumbers) -> float:
    """t = −W₋₁(−(εℓ/b)e^{−ℓa/b})/ℓ − a/b with a = level, b = slope/q, ℓ = ln(1/q)."""
    a, b, decay, eps = hump.level, hump.slope / hump.rate, _decay(hump.rate), goal.eps
    # below this share the hump changes t by less than one step, and a/b would cancel
    if b > 1e-12 * a * decay:
        y = math.log(b) - math.log(eps) - math.log(decay) + decay * a / b  # z − ln z = y at z = −W₋₁(−e^{−y})
        return _minus_w(max(y, 1.0)) / decay - a / b
    return (math.log(a) - math.log(eps)) / decay if a > eps else goal.t_min


def _minus_w(y: float) -> float:
    """−W₋₁(−e^{−y}), the root z ≥ 1 of z − ln z = y; by Newton where e^{−y} underflows."""
    if y < 700:
        return float(-lambertw(-math.exp(-y), -1).real)
    z = y + math.log(y)
    for _ in range(8):
        z -= (z - math.log(z) - y) / (1 - 1 / z)
    return z


# --- a split ---------------------------------------------------------------------------------------------------------


def choose_on_split(goal: Goal, split: SplitNumbers) -> Choice:
    """The cheapest pair of whole numbers around the real optimum."""
    choice = _cheapest_around(_centre(goal, split), goal, split)
    return Choice(choice.t, _settled_k(goal, choice), choice.how)


def _centre(goal: Goal, split: SplitNumbers) -> float:
    """The t at which the first term has its share εω_t/(ω_t+ω_k), ω = price/ln(1/rate)."""
    omega_t, omega_k = goal.price_t / split.decay_t, goal.price_k / split.decay_k
    share = omega_t / (omega_t + omega_k) if omega_t + omega_k > 0 else 0.5
    if share <= 0 or split.lower <= 0:
        return float(goal.t_min)
    reach = math.log(split.lower) - math.log(goal.eps) - math.log(share)
    return max(float(goal.t_min), reach / split.decay_t)


def _cheapest_around(centre: float, goal: Goal, split: SplitNumbers) -> Choice:
    """The best whole pair in a window of t that is widened until it contains the optimum.

    The real price is convex in t. So the window contains the optimum if both ends cost more than the best whole pair
    inside. At the right end it is also enough that k cannot become smaller.
    """
    plateau = _k_at_infinity(goal, split)
    half = 64
    while half <= WIDEST:
        ts = np.arange(max(goal.t_min, math.floor(centre) - half), math.floor(centre) + half + 1, dtype=float)
        ks = split.least_k(ts, goal.eps)
        whole_ks = np.maximum(np.ceil(ks), 0)
        prices, real_prices = goal.price(ts, whole_ks), goal.price(ts, ks)
        best = int(np.argmin(prices))
        left = ts[0] == goal.t_min or real_prices[0] > prices[best]
        right = real_prices[-1] > prices[best] or math.ceil(min(ks[-1], 1e300)) <= plateau
        if left and right:
            return Choice(int(ts[best]), int(whole_ks[best]), "closed form (optimal split)")
        half *= 2
    raise InputError(f"no t and k were found for eps = {goal.eps:g}; take a larger eps")


def _k_at_infinity(goal: Goal, split: SplitNumbers) -> float:
    """The least whole k as t → ∞."""
    if split.upper <= goal.eps:
        return 0.0
    return max(0.0, math.ceil((math.log(split.upper) - math.log(goal.eps)) / split.decay_k))


def _settled_k(goal: Goal, choice: Choice) -> int:
    """The least k at the chosen t, according to the bound itself; the closed form may be off by a step."""
    t, k = choice.t or 0, choice.k or 0
    while float(goal.value(t, k)) > goal.eps:
        k += 1
    while k > 0 and goal.reached(t, k - 1):
        k -= 1
    return k

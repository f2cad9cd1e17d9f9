"""How many iterations a bound guarantees for an accuracy: in closed form where there is one, else by exact search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from scipy.special import lambertw

from boundcheck.constants import Side
from boundcheck.errors import InputError
from boundcheck.theory.evaluation import evaluate
from boundcheck.theory.symbols import k, q, t

if TYPE_CHECKING:
    from boundcheck.theory.arguments import Call
    from boundcheck.theory.bound import Bound

LARGEST = 2**52  # beyond this a double no longer counts single iterations
SMALLEST = 1e-300
LARGEST_RATIO = 1e9


@dataclass(frozen=True)
class Hump:
    """A bound of the form level·q^t + slope·t·q^(t−1): it may rise before it falls (Lambert W inverts it)."""

    level: sp.Expr
    slope: sp.Expr
    rate: sp.Expr = q

    def expression(self) -> sp.Expr:
        return self.level * self.rate**t + self.slope * t * self.rate ** sp.Max(t - 1, 0)


@dataclass(frozen=True)
class Split:
    """A bound of the form lower·r^t + upper·s^k − cross·r^t·s^k: an accuracy to be split between t and k."""

    lower: sp.Expr
    upper: sp.Expr
    cross: sp.Expr = sp.S.Zero
    rate_t: sp.Expr = q
    rate_k: sp.Expr = q

    def expression(self) -> sp.Expr:
        left, right = self.rate_t**t, self.rate_k**k
        return self.lower * left + self.upper * right - self.cross * left * right


@dataclass(frozen=True)
class Iterations:
    """The least work with which a bound is at most an accuracy.

    Attributes
    ----------
    t : int or None
        The lower-level steps; None where the bound has no t.
    k : int or None
        The steps of the linear solver; None where the bound has no k.
    value : float
        The bound at (t, k).
    cost : float
        cost_t·t + cost_k·k.
    side : Side
        What the value is worth, given the constants.
    how : str
        How t and k were found: by a closed form or by search.
    """

    t: int | None
    k: int | None
    value: float
    cost: float
    side: Side
    how: str


def solve(
    bound: Bound, constants: Any, eps: float, cost_t: float, cost_k: float, given: Mapping[str, Any]
) -> Iterations:
    """Dispatch on what the bound depends on and on whether its shape has a closed form."""
    eps, cost_t, cost_k = (_positive(n, x) for n, x in (("eps", eps), ("cost_t", cost_t), ("cost_k", cost_k)))
    if eps < SMALLEST:
        raise InputError(f"eps = {eps:g} is below what double precision resolves here; give eps ≥ {SMALLEST:g}")
    if not 1 / LARGEST_RATIO <= cost_t / cost_k <= LARGEST_RATIO:
        raise InputError(f"cost_t = {cost_t:g} and cost_k = {cost_k:g} differ too much; give a ratio up to 10⁹")
    price_t, price_k = cost_t / max(cost_t, cost_k), cost_k / max(cost_t, cost_k)
    first = bound.call(constants, bound.t_min, 0, given)
    used = {symbol for symbol in (t, k) if symbol in first.expression.free_symbols}
    if bound.recursion:
        used.add(t)
    if not used:
        raise InputError(f"{bound.name} has no t or k to choose; measure its residuals and evaluate it instead")

    def value(ts: Any, ks: Any) -> np.ndarray:
        call = bound.call(constants, ts, ks, given)
        values = call.values(check=False).values
        for condition in range(len(bound.conditions)):
            values = np.where(call.satisfied(condition), values, np.inf)
        return values

    replaced = set(given) | (set(first.arrays) & {symbol.name for symbol in bound.defaults})
    shape = None if replaced else bound.shape
    numbers = _shape_numbers(bound, first) if shape else {}
    # a rate that rounds to 1 has no logarithm to divide by
    solvable = all(math.isfinite(x) and not (name.startswith("rate") and x >= 1) for name, x in numbers.items())
    if isinstance(shape, Hump) and solvable:
        pick_t, pick_k, how = _hump(value, bound.t_min, eps, **numbers)
    elif isinstance(shape, Split) and solvable:
        pick_t, pick_k, how = _split(value, bound.t_min, eps, price_t, price_k, **numbers)
    elif len(used) == 2:
        pick_t, pick_k, how = _search_pair(value, bound.t_min, eps, price_t, price_k)
    else:
        low = bound.t_min if t in used else 0
        along: Callable[[Any], np.ndarray] = (lambda n: value(n, 0)) if t in used else (lambda n: value(low, n))
        pick_t, pick_k, how = _search(along, low, eps), None, "search"
        if t not in used:
            pick_t, pick_k = None, pick_t
    cost = cost_t * (pick_t or 0) + cost_k * (pick_k or 0)
    reached = float(value(pick_t if pick_t is not None else bound.t_min, pick_k or 0))
    return Iterations(pick_t, pick_k, reached, cost, first.values(check=False).side, how)


def _shape_numbers(bound: Bound, first: Call) -> dict[str, float]:
    """The coefficients and rates of a closed form at the constants of a call."""
    available = frozenset(first.arrays)
    return {
        name: float(evaluate(bound.substitute(bound.expand(getattr(bound.shape, name)), available), first.arrays))
        for name in (bound.shape.__dataclass_fields__ if bound.shape else ())
    }


def _positive(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {value!r} is not a number; give a positive finite number, such as 1e-3") from None
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} = {number} is not positive; give a positive finite number, such as 1e-3")
    return number


Pick = tuple[int, int | None, str]


def _hump(value: Callable[..., np.ndarray], low: int, eps: float, *, level: float, slope: float, rate: float) -> Pick:
    """t = −W₋₁(−(εℓ/b)e^{−ℓa/b})/ℓ − a/b with a = level, b = slope/q, ℓ = ln(1/q); then settled on whole numbers."""
    if float(value(low, 0)) <= eps:
        return low, None, "closed form"
    guess = float(low)
    if rate > 0:
        decay = -math.log(rate)
        guess = (math.log(level) - math.log(eps)) / decay if level > eps else low
        b = slope / rate
        # below this share the hump moves the answer by less than one step, and a/b would cancel
        if b > 1e-12 * level * decay:
            y = math.log(b) - math.log(eps) - math.log(decay) + decay * level / b  # z − ln z = y at z = −W₋₁(−e^{−y})
            guess = _minus_w(max(y, 1.0)) / decay - level / b
    return _settle(lambda n: bool(value(n, 0) <= eps), low, guess), None, "closed form (Lambert W)"


def _minus_w(y: float) -> float:
    """−W₋₁(−e^{−y}), the root z ≥ 1 of z − ln z = y; by Newton where e^{−y} underflows."""
    if y < 700:
        return float(-lambertw(-math.exp(-y), -1).real)
    z = y + math.log(y)
    for _ in range(8):
        z -= (z - math.log(z) - y) / (1 - 1 / z)
    return z


def _settle(enough: Callable[[int], bool], low: int, guess: float) -> int:
    """The smallest n > low with enough(n), for a predicate that turns true once; few calls when the guess is good."""
    at = int(min(max(math.ceil(guess), low + 1), LARGEST))
    step = 1
    if enough(at):
        good = at
        while good - step > low and enough(good - step):
            good, step = good - step, 2 * step
        bad = max(good - step, low)
    else:
        bad = at
        while not enough(min(bad + step, LARGEST)):
            bad, step = min(bad + step, LARGEST), 2 * step
            if bad >= LARGEST:
                raise InputError(f"no number of iterations up to {LARGEST} is enough; take a larger eps")
        good = min(bad + step, LARGEST)
    while good - bad > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if enough(middle) else (good, middle)
    return good


def _split(
    value: Callable[..., np.ndarray],
    low: int,
    eps: float,
    cost_t: float,
    cost_k: float,
    *,
    lower: float,
    upper: float,
    cross: float,
    rate_t: float,
    rate_k: float,
) -> Pick:
    """Give each term its share εω/(ω_t+ω_k), ω = cost/ln(1/rate); then the best whole numbers around that point.

    For fixed t the least k solves an equation linear in s^k. The real cost is convex in t, so a window whose ends
    cost more than the best whole pair inside it contains the optimum.
    """
    log_t, log_k = (-math.log(rate) if rate > 0 else math.inf for rate in (rate_t, rate_k))

    def least_k(ts: np.ndarray) -> np.ndarray:
        left = np.power(rate_t, ts)
        room, weight = eps - lower * left, upper - cross * left
        if rate_k == 0:  # one step solves the system
            return np.where(room >= weight, 0.0, np.where(room >= 0, 1.0, np.inf))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(room >= weight, 0.0, np.where(room > 0, np.log(weight / room) / log_k, np.inf))

    omega_t, omega_k = cost_t / log_t, cost_k / log_k
    share = omega_t / (omega_t + omega_k) if omega_t + omega_k > 0 else 0.5
    reach = math.log(lower) - math.log(eps) - math.log(share) if share > 0 and lower > 0 else 0.0
    centre = max(float(low), reach / log_t)
    plateau = max(0.0, math.ceil((math.log(upper) - math.log(eps)) / log_k)) if upper > eps else 0.0  # least k at t = ∞
    half = 64
    while True:
        ts = np.arange(max(low, math.floor(centre) - half), math.floor(centre) + half + 1, dtype=float)
        real = least_k(ts)
        costs = cost_t * ts + cost_k * np.maximum(np.ceil(real), 0)
        best = int(np.argmin(costs))
        relaxed = cost_t * ts + cost_k * real
        right = relaxed[-1] > costs[best] or math.ceil(min(real[-1], 1e300)) <= plateau
        if (ts[0] == low or relaxed[0] > costs[best]) and right:
            break
        half *= 2
        if half > 2**24:
            raise InputError(f"no t and k were found for eps = {eps:g}; take a larger eps")
    pick_t, pick_k = int(ts[best]), int(max(np.ceil(real[best]), 0))
    while float(value(pick_t, pick_k)) > eps:  # rounding of the closed form, at most a step
        pick_k += 1
    while pick_k > 0 and float(value(pick_t, pick_k - 1)) <= eps:
        pick_k -= 1
    return pick_t, pick_k, "closed form (optimal split)"


def _search(along: Callable[[Any], np.ndarray], low: int, eps: float) -> int:
    """The first n ≥ low with value ≤ eps, looking at every n up to 2²⁰ and by bisection beyond."""
    start, size = low, 1024
    while start < 2**20:
        hit = np.flatnonzero(along(np.arange(start, start + size)) <= eps)
        if hit.size:
            return start + int(hit[0])
        start, size = start + size, 2 * size
    return _settle(lambda n: bool(along(n) <= eps), start, start)


def _search_pair(value: Callable[..., np.ndarray], low: int, eps: float, cost_t: float, cost_k: float) -> Pick:
    """The cheapest (t, k): the least k for every t at once by bisection, coarse to fine when there are many t."""
    enough = 1
    while not float(value(max(enough, low), enough)) <= eps:
        enough *= 2
        if enough > LARGEST:
            raise InputError(f"the bound stays above eps = {eps:g} for all t and k; take a larger eps or other rates")
    budget = (cost_t + cost_k) * enough
    most_t, most_k = int(budget / cost_t) + low + 1, int(budget / cost_k) + 1

    def least_k(ts: np.ndarray) -> np.ndarray:
        bad, good = np.full(ts.shape, -1), np.full(ts.shape, most_k)
        feasible = value(ts, good) <= eps
        while (good - bad).max() > 1:
            middle = (good + bad) // 2
            fits = value(ts, np.maximum(middle, 0)) <= eps
            good, bad = np.where(fits, middle, good), np.where(fits, bad, middle)
        least = np.where(feasible, good, np.inf)
        # for fixed t a bound may also rise with k (from k = 1 on, when the first step is counted apart)
        for early in (1, 0):
            least = np.where(value(ts, np.full(ts.shape, early)) <= eps, early, least)
        return least

    start, stop = low, most_t
    while True:
        stride = max(1, (stop - start) // 2**14)
        ts = np.arange(start, stop + 1, stride)
        ks = least_k(ts)
        best = int(np.argmin(cost_t * ts + cost_k * ks))
        if stride == 1:
            return int(ts[best]), int(ks[best]), "search"
        start, stop = max(low, int(ts[best]) - 2 * stride), int(ts[best]) + 2 * stride

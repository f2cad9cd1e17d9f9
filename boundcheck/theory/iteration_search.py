"""Search whole numbers for the least t and k at which a bound is small enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from boundcheck.errors import InputError

LARGEST_COUNT = 2**52  # above this a double cannot count single iterations
SEARCHED = 2**20  # every number up to this one is tested
GRID = 2**14  # evaluate about this many t at once


@dataclass(frozen=True)
class Choice:
    """A number of steps t, or k, or both; `how` names the way it was computed."""

    t: int | None
    k: int | None
    how: str


@dataclass(frozen=True, eq=False)
class Goal:
    """The goal: value(t, k) ≤ eps for t ≥ t_min, at the least price_t·t + price_k·k."""

    value: Callable[[Any, Any], np.ndarray]
    t_min: int
    eps: float
    price_t: float
    price_k: float

    def reached(self, t: int, k: int) -> bool:
        """Whether the bound is small enough at t and k."""
        return bool(self.value(t, k) <= self.eps)

    def price(self, ts: np.ndarray, ks: np.ndarray) -> np.ndarray:
        """The price of t and k steps."""
        return self.price_t * ts + self.price_k * ks


def search_t(goal: Goal) -> Choice:
    """The smallest t that reaches the goal, for a bound without k."""
    return Choice(_first(lambda ts: goal.value(ts, 0), goal.t_min, goal.eps), None, "search")


def search_k(goal: Goal) -> Choice:
    """The smallest k that reaches the goal, for a bound without t."""
    return Choice(None, _first(lambda ks: goal.value(0, ks), 0, goal.eps), "search")


def search_pair(goal: Goal) -> Choice:
    """The cheapest (t, k): bisection finds the least k for all t at once, first on a coarse grid if there are many."""
    enough = _enough_of_both(goal)
    budget = (goal.price_t + goal.price_k) * enough
    most_k = int(budget / goal.price_k) + 1
    start, stop = goal.t_min, int(budget / goal.price_t) + goal.t_min + 1
    while True:
        stride = max(1, (stop - start) // GRID)
        ts = np.arange(start, stop + 1, stride)
        ks = _least_k(goal, ts, most_k)
        best = int(np.argmin(goal.price(ts, ks)))
        if stride == 1:
            return Choice(int(ts[best]), int(ks[best]), "search")
        start, stop = max(goal.t_min, int(ts[best]) - 2 * stride), int(ts[best]) + 2 * stride


def settle(enough: Callable[[int], bool], low: int, guess: float) -> int:
    """The smallest n > low with enough(n), for a monotone predicate; needs few calls if the guess is good."""
    start = int(min(max(math.ceil(guess), low + 1), LARGEST_COUNT))
    step = 1
    if enough(start):
        good = start
        while good - step > low and enough(good - step):
            good, step = good - step, 2 * step
        bad = max(good - step, low)
    else:
        bad = start
        while not enough(min(bad + step, LARGEST_COUNT)):
            bad, step = min(bad + step, LARGEST_COUNT), 2 * step
            if bad >= LARGEST_COUNT:
                raise InputError(f"no number of iterations up to {LARGEST_COUNT} is enough; take a larger eps")
        good = min(bad + step, LARGEST_COUNT)
    while good - bad > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if enough(middle) else (good, middle)
    return good


def _first(along: Callable[[Any], np.ndarray], low: int, eps: float) -> int:
    """The first n ≥ low with value ≤ eps. Every n up to `SEARCHED` is tested; bisection continues from there."""
    start, size = low, 1024
    while start < SEARCHED:
        stop = min(start + size, SEARCHED)
        hits = np.flatnonzero(along(np.arange(start, stop)) <= eps)
        if hits.size:
            return start + int(hits[0])
        start, size = stop, 2 * size
    try:
        return settle(lambda n: bool(along(n) <= eps), start - 1, start)
    except InputError as why:
        raise InputError(f"{why}; after {start - 1} iterations the bound is {float(along(start - 1)):g}") from None


def _enough_of_both(goal: Goal) -> int:
    """A power of 2 that is enough for both t and k."""
    enough = 1
    while not goal.reached(max(enough, goal.t_min), enough):
        enough *= 2
        if enough > LARGEST_COUNT:
            raise InputError(
                f"the bound stays above eps = {goal.eps:g} for all t and k; take a larger eps or other rates; at "
                f"t = k = {LARGEST_COUNT} it is {float(goal.value(LARGEST_COUNT, LARGEST_COUNT)):g}"
            )
    return enough


def _least_k(goal: Goal, ts: np.ndarray, most_k: int) -> np.ndarray:
    """The least k up to `most_k` for every t; infinity if no k is enough."""
    bad, good = np.full(ts.shape, -1), np.full(ts.shape, most_k)
    feasible = goal.value(ts, good) <= goal.eps
    while (good - bad).max() > 1:
        middle = (good + bad) // 2
        fits = goal.value(ts, np.maximum(middle, 0)) <= goal.eps
        good, bad = np.where(fits, middle, good), np.where(fits, bad, middle)
    least = np.where(feasible, good, np.inf)
    # for fixed t a bound may also rise with k (from k = 1 on, if the first step has its own formula)
    for early in (1, 0):
        least = np.where(goal.value(ts, np.full(ts.shape, early)) <= goal.eps, early, least)
    return least

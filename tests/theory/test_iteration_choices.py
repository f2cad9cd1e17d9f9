"""The parts of `iterations`, each by itself: one function for each shape of bound, and the searches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

import boundcheck as bc
from boundcheck.theory.iteration_search import LARGEST_COUNT, Choice, Goal, search_k, search_pair, search_t, settle
from boundcheck.theory.shape_inversion import HumpNumbers, SplitNumbers, choose_on_hump, choose_on_split

HUMP = HumpNumbers(level=1.0, slope=0.5, rate=0.9)
SPLIT = SplitNumbers(lower=3.0, upper=2.0, cross=0.5, rate_t=0.9, rate_k=0.8)


def hump(t: Any, k: Any) -> np.ndarray:
    t = np.asarray(t, float)
    return HUMP.level * HUMP.rate**t + HUMP.slope * t * HUMP.rate ** np.maximum(t - 1, 0)


def split(t: Any, k: Any) -> np.ndarray:
    left, right = SPLIT.rate_t ** np.asarray(t, float), SPLIT.rate_k ** np.asarray(k, float)
    return SPLIT.lower * left + SPLIT.upper * right - SPLIT.cross * left * right


def goal(
    value: Callable[[Any, Any], np.ndarray], eps: float, price_t: float = 1.0, price_k: float = 1.0, t_min: int = 0
) -> Goal:
    return Goal(value, t_min, eps, price_t, price_k)


def cheapest(eps: float, price_t: float, price_k: float) -> float:
    t, k = np.arange(300)[:, None], np.arange(300)[None, :]
    return float(np.where(split(t, k) <= eps, price_t * t + price_k * k, np.inf).min())


def test_a_choice_is_a_fact() -> None:
    choice = Choice(3, None, "search")
    assert (choice.t, choice.k, choice.how) == (3, None, "search")
    with pytest.raises(FrozenInstanceError):
        choice.t = 4  # type: ignore[misc]


@pytest.mark.parametrize("eps", [1.5, 1e-1, 1e-6, 1e-12])
def test_on_a_hump_the_closed_form_is_what_a_search_finds(eps: float) -> None:
    closed, searched = choose_on_hump(goal(hump, eps), HUMP), search_t(goal(hump, eps))
    assert (closed.t, closed.k) == (searched.t, None)
    assert searched.how == "search"


def test_a_hump_that_is_low_enough_at_the_start() -> None:
    assert choose_on_hump(goal(hump, 1.0), HUMP) == Choice(0, None, "closed form")


def test_a_hump_with_rate_zero() -> None:
    flat = HumpNumbers(level=1.0, slope=0.5, rate=0.0)

    def value(t: Any, k: Any) -> np.ndarray:
        return np.where(np.asarray(t) == 0, 1.0, np.where(np.asarray(t) == 1, 0.5, 0.0))

    assert choose_on_hump(goal(value, 1e-3), flat).t == 2


@pytest.mark.parametrize(("price_t", "price_k"), [(1.0, 1.0), (0.1, 1.0), (1.0, 0.3)])
@pytest.mark.parametrize("eps", [4.5, 1.0, 1e-2, 1e-6])
def test_on_a_split_both_ways_are_the_cheapest(eps: float, price_t: float, price_k: float) -> None:
    request = goal(split, eps, price_t, price_k)
    for choice in (choose_on_split(request, SPLIT), search_pair(request)):
        assert choice.t is not None
        assert choice.k is not None
        assert split(choice.t, choice.k) <= eps
        assert price_t * choice.t + price_k * choice.k == pytest.approx(cheapest(eps, price_t, price_k))


def test_the_least_k_of_a_split() -> None:
    ts = np.array([0.0, 30.0, 200.0])
    least = SPLIT.least_k(ts, 0.2)
    assert math.isinf(least[0])
    assert split(ts[1:], least[1:]) == pytest.approx(0.2)
    once = SplitNumbers(lower=3.0, upper=2.0, cross=0.0, rate_t=0.9, rate_k=0.0)
    assert once.least_k(ts, 0.2).tolist() == [math.inf, 1.0, 1.0]


def test_numbers_without_a_closed_form() -> None:
    assert HUMP.solvable
    assert SPLIT.solvable
    assert not HumpNumbers(1.0, 1.0, 1.0).solvable
    assert not HumpNumbers(math.inf, 1.0, 0.5).solvable
    assert not SplitNumbers(1.0, 1.0, 0.0, 0.5, 1.0).solvable


def test_a_bound_in_k_only() -> None:
    def value(t: Any, k: Any) -> np.ndarray:
        return 0.5 ** np.asarray(k, float)

    assert search_k(goal(value, 1e-3)) == Choice(None, 10, "search")


def test_search_starts_at_the_first_t_of_the_theorem() -> None:
    assert search_t(goal(hump, 10.0, t_min=1)).t == 1


@pytest.mark.parametrize("answer", [1, 2, 1000, 10**9])
@pytest.mark.parametrize("guess", [0.0, 999.5, 1e12])
def test_settle_finds_the_turn_from_any_guess(answer: int, guess: float) -> None:
    calls: list[int] = []

    def enough(n: int) -> bool:
        calls.append(n)
        return n >= answer

    assert settle(enough, 0, guess) == answer
    assert len(calls) < 200


def test_settle_gives_up() -> None:
    with pytest.raises(bc.InputError, match=f"no number of iterations up to {LARGEST_COUNT} is enough"):
        settle(lambda n: False, 0, 5.0)


def test_a_pair_that_is_never_enough() -> None:
    with pytest.raises(bc.InputError, match=r"the bound stays above eps = 0\.001 for all t and k"):
        search_pair(goal(lambda t, k: np.ones(np.broadcast_shapes(np.shape(t), np.shape(k))), 1e-3))

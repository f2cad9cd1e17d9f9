"""Intervals for means: right as often as they say, tight, and honest where nothing is proved."""

from __future__ import annotations

import math

import numpy as np
import pytest

from boundcheck.compare.confidence import (
    lower_end,
    mean_interval,
    runs_to_decide,
    student_end,
    upper_end,
    vector_radius,
)

TRIALS, RUNS, DELTA = 1000, 60, 0.05
# An end that is wrong with probability at most 5 % is wrong in more than 83 of 1000 trials with probability < 1e-5.
MOST_WRONG = 83


def _draws(kind: str, rng: np.random.Generator) -> np.ndarray:
    if kind == "rare":  # Student's t fails here: the sample often has no rare value at all
        return (rng.random((TRIALS, RUNS)) < 0.02).astype(float)
    if kind == "coin":
        return rng.integers(0, 2, (TRIALS, RUNS)).astype(float)
    return rng.beta(0.3, 3, (TRIALS, RUNS))


@pytest.mark.parametrize(("kind", "mean"), [("rare", 0.02), ("coin", 0.5), ("skewed", 0.3 / 3.3)])
def test_ends_are_wrong_as_rarely_as_they_say(kind: str, mean: float) -> None:
    samples = _draws(kind, np.random.default_rng(0))
    assert sum(lower_end(x, DELTA) > mean for x in samples) <= MOST_WRONG
    assert sum(upper_end(x, DELTA, 1.0) < mean for x in samples) <= MOST_WRONG


def test_students_t_is_wrong_where_large_numbers_are_rare() -> None:
    samples = _draws("rare", np.random.default_rng(0))
    assert sum(student_end(x, DELTA) < 0.02 for x in samples) > MOST_WRONG


def test_width_is_that_of_the_normal_distribution_where_the_range_is_small() -> None:
    x = np.random.default_rng(1).exponential(size=2000).clip(max=12)
    ends = mean_interval(x, 1e-4, 12.0)
    normal = x.std() / math.sqrt(len(x)) * 3.72  # the quantile of 1e-4
    assert ends.lower > x.mean() - 1.7 * normal
    assert ends.upper < x.mean() + 1.7 * normal


def test_far_range_costs_range_over_runs() -> None:
    x = np.random.default_rng(2).random(1000)
    assert upper_end(x, 1e-3, 1e6) - x.mean() == pytest.approx(1e6 * math.log(14e3) / 1000, rel=0.1)


def test_edges() -> None:
    zeros = np.zeros(100)
    assert lower_end(zeros, 0.05) == 0
    assert upper_end(zeros, 0.05, 1.0) == pytest.approx(1 - (0.05 / 14) ** 0.01, rel=0.05)  # e-value of the λ near 1
    assert upper_end(np.ones(10), 0.05, 1.0) == 1.0
    assert mean_interval(np.array([0.0, 2.0]), 0.05, 1.0).proved is False  # a number above the range refutes it
    assert mean_interval(np.array([0.0, 0.5]), 0.05, None).proved is False


def test_average_of_vectors() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.integers(0, 2, (TRIALS, RUNS, 5)) * 2.0 - 1  # mean 0, norm √5
    radius = vector_radius(5.0, math.sqrt(5), RUNS, DELTA)
    away = np.linalg.norm(vectors.mean(axis=1), axis=1)
    assert (away > radius).sum() <= MOST_WRONG
    assert radius < 3 * np.quantile(away, 1 - DELTA)


def test_runs_to_decide_are_enough() -> None:
    rng = np.random.default_rng(4)
    mean, bound = 0.5, 0.55
    runs = runs_to_decide(mean, 1 / 12, bound, 1e-3, 1.0)
    assert runs is not None
    assert upper_end(rng.random(2 * runs), 1e-3, 1.0) < bound
    assert upper_end(rng.random(runs // 4), 1e-3, 1.0) > bound
    assert runs_to_decide(0.5, 1.0, 0.5, 1e-3, 1.0) is None
    assert runs_to_decide(0.5, 1.0, 0.6, 1e-3, None) is None

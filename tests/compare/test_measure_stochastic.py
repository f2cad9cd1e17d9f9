"""Bias and variances against a distribution on which they are known."""

from __future__ import annotations

import numpy as np
import pytest

from boundcheck.compare.measure_stochastic import Range, Reference, Runs, measure
from boundcheck.report.stochastic_curve import Measured

# w is ±1 in each of 2 coordinates; g = b + A w + z with z ±1 in each of 3 coordinates, scaled
BIAS = np.array([0.3, -0.2, 0.1])
A = np.array([[0.5, 0.0], [0.2, 0.4], [0.0, 0.1]])
NOISE = 0.7
TRUTH = {
    Measured.BIAS: float(np.linalg.norm(BIAS)),
    Measured.VARIANCE_GIVEN_W: 3 * NOISE**2,
    Measured.VARIANCE_OF_MEAN: float((A * A).sum()),
    Measured.MSE: float(BIAS @ BIAS) + 3 * NOISE**2 + float((A * A).sum()),
    Measured.DISTANCE: 2.0,
}
TARGET = np.array([1.0, 2.0, 3.0])
LARGEST = float(np.linalg.norm(BIAS)) + float(np.linalg.norm(A, 2)) * 2**0.5 + NOISE * 3**0.5


def _runs(count: int, seed: int) -> Runs:
    rng = np.random.default_rng(seed)
    w = rng.integers(0, 2, (count, 2)) * 2.0 - 1
    value, again = (TARGET + BIAS + w @ A.T + NOISE * (rng.integers(0, 2, (count, 3)) * 2.0 - 1) for _ in range(2))
    return Runs(value, again, w)


def _reference(off: float = 0.0) -> Reference:
    return Reference(TARGET + off * np.array([1.0, 0, 0]), np.zeros(2), off, 0.0, proved=True)


@pytest.mark.parametrize("off", [0.0, 0.02])
def test_every_interval_contains_the_truth_and_is_narrow(off: float) -> None:
    # 10 ends, each wrong with probability at most 1e-4
    estimates = measure(_runs(20_000, 0), _reference(off), Range(LARGEST, 2**0.5), 1e-4)
    for quantity, truth in TRUTH.items():
        interval = estimates[quantity].interval
        assert interval.proved
        assert interval.lower <= truth <= interval.upper, quantity
        if quantity is not Measured.DISTANCE:  # that one has no spread
            assert interval.upper - interval.lower < 0.5 * truth + 4 * off, quantity
        assert interval.lower < estimates[quantity].value < interval.upper


def test_parts_add_up() -> None:
    estimates = measure(_runs(5000, 1), _reference(), Range(LARGEST, 2**0.5), 1e-3)
    value = {quantity: estimate.value for quantity, estimate in estimates.items()}
    parts = value[Measured.BIAS] ** 2 + value[Measured.VARIANCE_GIVEN_W] + value[Measured.VARIANCE_OF_MEAN]
    assert parts == pytest.approx(value[Measured.MSE], rel=1e-12)


def test_nothing_is_proved_without_a_range_or_a_certified_reference() -> None:
    runs = _runs(500, 2)
    reference = _reference()
    doubtful = Reference(reference.value, reference.w, 0.0, 0.0, proved=False)
    for estimates in (
        measure(runs, reference, Range(None, None), 1e-3),
        measure(runs, doubtful, Range(LARGEST, 2**0.5), 1e-3),
    ):
        assert not any(estimate.interval.proved for estimate in estimates.values())
        assert all(np.isfinite(estimate.interval.upper) for estimate in estimates.values())


def test_a_range_that_the_runs_refute_proves_nothing() -> None:
    estimates = measure(_runs(500, 3), _reference(), Range(LARGEST / 4, 0.5), 1e-3)
    assert not estimates[Measured.MSE].interval.proved
    assert not estimates[Measured.DISTANCE].interval.proved

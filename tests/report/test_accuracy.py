"""`accuracy` says nothing false about any gradient that may be the true one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundcheck.constants import Constant, Provenance
from boundcheck.report.accuracy import Accuracy, accuracy
from boundcheck.side import Side

SAFE = 1 + 1e-12  # the truth of this test is computed in float64 too


def certificate(value: float, side: Side = Side.UPPER) -> Constant:
    return Constant("eps_g", value, side, Provenance("test"))


def degrees(a: np.ndarray, b: np.ndarray) -> float:
    return math.degrees(math.acos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1)))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), log_eps=st.floats(-14, 1), near=st.sampled_from([1e-9, 0.1, 3]))
def test_every_gradient_within_eps_of_the_reference_is_covered(seed: int, n: int, log_eps: float, near: float) -> None:
    rng = np.random.default_rng(seed)
    reference, eps = rng.normal(size=n), 10**log_eps
    g = reference + near * rng.normal(size=n)
    result = accuracy(g, reference, certificate(eps))
    for _ in range(5):
        direction = rng.normal(size=n)
        truth = reference + eps * direction / np.linalg.norm(direction)
        error, size = np.linalg.norm(g - truth), np.linalg.norm(truth)
        assert result.error.lower <= error * SAFE + 1e-15
        assert error <= result.error.upper * SAFE
        assert result.gradient_norm.lower <= size * SAFE
        assert size <= result.gradient_norm.upper * SAFE
        assert error / size <= result.relative_error * SAFE
        assert degrees(g, truth) <= result.angle + 1e-5  # arccos loses half of the digits
        if result.descent is not None and abs(g @ truth) > 1e-14:
            assert result.descent is bool(g @ truth > 0)


def test_a_small_certificate_leaves_nothing_open() -> None:
    g, reference = np.array([1.0, 1.0]), np.array([2.0, 0.0])
    result = accuracy(g, reference, certificate(1e-12))
    assert result.relative_error == pytest.approx(math.sqrt(2) / 2, rel=1e-10)
    assert result.angle == pytest.approx(45, rel=1e-10)
    assert result.descent is True
    assert result.proved
    assert accuracy(-g, reference, certificate(1e-12)).descent is False


@pytest.mark.parametrize(
    ("g", "reference", "descent"), [([0.0, 0.0], [1.0, 0.0], False), ([1.0, 0.0], [0.0, 0.0], None)]
)
def test_of_a_zero_vector_no_angle_is_known(g: list[float], reference: list[float], descent: bool | None) -> None:
    result = accuracy(np.array(g), np.array(reference), certificate(1e-3))
    assert result.angle == 180
    assert result.descent is descent  # a step along 0 never descends


def test_a_gradient_that_may_be_zero_has_no_relative_error() -> None:
    result = accuracy(np.array([1.0]), np.array([0.5]), certificate(0.6))
    assert result.relative_error == math.inf
    assert result.descent is None


def test_an_estimate_stays_an_estimate() -> None:
    result: Accuracy = accuracy(np.array([1.0]), np.array([1.0]), certificate(0.1, Side.LOWER))
    assert not result.proved
    assert result.error.side is Side.LOWER


@pytest.mark.parametrize("scale", [1e-300, 1e-162, 1.0, 1e200])
def test_squares_neither_underflow_nor_overflow(scale: float) -> None:
    g, reference = scale * np.array([3.0, 0.0]), scale * np.array([0.0, 4.0])
    result = accuracy(g, reference, certificate(1e-3 * scale))
    assert result.error.lower <= 5 * scale <= result.error.upper
    assert result.error.upper == pytest.approx(5.001 * scale, rel=1e-10)
    assert result.gradient_norm.upper == pytest.approx(4.001 * scale, rel=1e-10)
    assert accuracy(reference, reference, certificate(1e-3 * scale)).descent is True

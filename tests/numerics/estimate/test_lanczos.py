"""Ends of spectra from products: estimates are inside, certified values outside, and what is counted was done."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from pretend import DEVICE, pretending
from spectra import DTYPES, F64, PLANTED, Counted, draws, encloses, planted, quarter_turns, spectra, times
from torch import Tensor

from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.estimate.lanczos import dense_norm, dense_symmetric, lanczos, power, slack
from boundcheck.side import Side


@DTYPES
@PLANTED
def test_planted_spectra(n: int, name: str, dtype: torch.dtype) -> None:
    H = planted(spectra(n)[name]).to(dtype)
    truth = torch.linalg.eigvalsh(H.double())
    low, top, scale = float(truth[0]), float(truth[-1]), float(truth.abs().max())
    found = lanczos(times(H), n, delta=1e-6, generator=draws(), dtype=dtype)
    eps = torch.finfo(dtype).eps
    encloses(found.largest, top, scale, eps)
    encloses(found.smallest, low, scale, eps, low=True)
    assert found.norm.value >= scale >= (1 - 20 * eps) * found.norm.estimate
    if dtype is F64:
        assert found.largest.converged
        assert found.largest.estimate == pytest.approx(top, rel=1e-6, abs=1e-12 * scale)
        assert found.smallest.estimate == pytest.approx(low, rel=1e-5, abs=1e-12 * scale)
    if n > 2:
        assert found.largest.side is Side.HIGH_PROBABILITY


def test_products_are_counted_truly() -> None:
    for most in (1, 7, 300):
        A = Counted(planted(spectra(300)["indefinite"]))
        found = lanczos(A, 300, most=most, generator=draws())
        assert A.count == found.largest.products == found.smallest.products <= most
    A = Counted(torch.eye(300, dtype=F64))
    found = lanczos(A, 300, generator=draws())
    assert (A.count, found.largest.steps) == (1, 1)  # b is an eigenvector: nothing else is to be found
    assert found.largest.slack == pytest.approx(1, abs=1e-11)


def test_residual_is_that_of_the_ritz_pair() -> None:
    H = planted(spectra(100)["uniform"])
    vectors: list[Tensor] = []

    def product(v: Tensor) -> Tensor:
        vectors.append(v.clone())
        return H @ v

    found = lanczos(product, 100, most=12, rtol=1e-12, generator=draws())
    Q = torch.stack(vectors, 1)
    assert torch.allclose(Q.T @ Q, torch.eye(12, dtype=F64), atol=1e-13)
    theta, S = torch.linalg.eigh(Q.T @ H @ Q)
    for end, i in ((found.largest, -1), (found.smallest, 0)):
        u = Q @ S[:, i]
        assert end.estimate == pytest.approx(float(theta[i]))
        assert end.residual == pytest.approx(float((H @ u - theta[i] * u).norm()))


def test_power_underestimates_and_is_slower() -> None:
    H = planted(spectra(100)["uniform"])
    quotients = power(times(H), 100, 300, generator=draws())
    assert len(quotients) == 300
    assert all(a <= b + 1e-15 for a, b in pairwise(quotients))
    found = lanczos(times(H), 100, want="largest", generator=draws()).largest
    assert quotients[found.products] < found.estimate <= 1 + 1e-14
    assert max(quotients) < (1 - 1e-6)
    assert power(lambda v: 0 * v, 3, 2, generator=draws()) == [0, 0]


def test_slow_convergence_is_reported() -> None:
    """κ = 10⁸: the estimate of λmin is far too large, and says that it has not converged; what is certified holds."""
    spectrum = torch.logspace(-8, 0, 2000, dtype=F64)
    found = lanczos(lambda v: spectrum * v, 2000, most=200, want="smallest", generator=draws())
    assert found.smallest.estimate > 10 * 1e-8
    assert not found.smallest.converged
    assert found.smallest.value <= 1e-8
    assert found.largest.converged
    assert found.smallest.products == 200


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["uniform", "logarithmic", "square", "gap"])
def test_the_stopping_rule_keeps_its_promise(name: str, seed: int) -> None:
    line = torch.linspace(0, 1, 2000, dtype=F64)
    spectrum = {
        "uniform": line,
        "logarithmic": torch.logspace(-4, 0, 2000, dtype=F64),
        "square": line**2,
        "gap": torch.cat([0.99 * line[1:], line[-1:]]),
    }[name]
    found = lanczos(lambda v: spectrum * v, 2000, rtol=1e-6, want="largest", generator=draws(seed)).largest
    assert found.converged
    assert 1 - 1e-6 <= found.estimate <= 1 + 1e-14 < found.value
    assert found.products <= 200


@DTYPES
def test_the_same_twice(dtype: torch.dtype) -> None:
    H = planted(spectra(100)["indefinite"]).to(dtype)
    first, again = (lanczos(times(H), 100, generator=draws(4), dtype=dtype) for _ in range(2))
    assert first == again
    assert first != lanczos(times(H), 100, generator=draws(5), dtype=dtype)


def test_memory_limits_the_steps() -> None:
    spectrum = torch.linspace(0, 1, 1000, dtype=F64)
    found = lanczos(lambda v: spectrum * v, 1000, memory=20 * 8 * 1000, generator=draws()).largest
    assert found.steps == 20
    assert not found.converged
    with pytest.raises(InputError, match=r"memory = 100 bytes holds 0 vectors of n = 1000; give 16000"):
        lanczos(lambda v: v, 1000, memory=100, generator=draws())


@DTYPES
def test_on_a_device(dtype: torch.dtype) -> None:
    """As on the CPU, with a wait for each look at T and for nothing else."""
    H = planted(spectra(60)["indefinite"]).to(dtype)
    with pretending():
        there = H.to(DEVICE)
    with pretending() as waits:
        found = lanczos(times(there), 60, most=24, rtol=1e-12, generator=draws(), dtype=dtype, device=DEVICE)
        quotients = power(times(there), 60, 9, generator=draws(), dtype=dtype, device=DEVICE)
    assert waits == {"copy to cpu": 8 + 1, "copy to lazy:0": 2}  # after 1, 2, 4, 8, 12, 16, 20, 24 steps; the starts
    expected = lanczos(times(H), 60, most=24, rtol=1e-12, generator=draws(), dtype=dtype)
    close = torch.finfo(dtype).eps ** 0.5
    assert found.largest.value == pytest.approx(expected.largest.value, rel=close)
    assert found.smallest.value == pytest.approx(expected.smallest.value, rel=close)
    assert quotients == pytest.approx(power(times(H), 60, 9, generator=draws(), dtype=dtype), abs=close)
    with pretending() as waits:
        dense = dense_symmetric(there)
    assert waits == {"copy to cpu": 1}
    assert dense.largest.value == pytest.approx(dense_symmetric(H).largest.value, rel=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: slack(10, 0, 0.1), InputError, "k = 0 products tell nothing"),
        (lambda: slack(10, 5, 1.0), InputError, r"delta = 1\.0 is not a failure probability"),
        (lambda: slack(0, 5, 0.1), InputError, "n = 0 is not a dimension"),
        (lambda: lanczos(lambda v: v, 0, generator=draws()), InputError, "n = 0 is not a dimension"),
        (lambda: lanczos(lambda v: v, 5, most=0, generator=draws()), InputError, "most = 0 allow no steps"),
        (lambda: lanczos(lambda v: v[:2], 5, generator=draws()), InputError, "A must be square"),
        (lambda: lanczos(lambda v: v / 0, 5, generator=draws()), DivergenceError, "is not finite"),
        (lambda: dense_symmetric(torch.ones(2, 3)), InputError, r"H has shape \(2, 3\); give a square matrix"),
        (lambda: dense_symmetric(quarter_turns(4)), InputError, "H is not symmetric"),
        (lambda: dense_norm(torch.full((2, 2), math.nan)), InputError, "J is not finite"),
        (lambda: dense_norm(torch.ones(3)), InputError, r"J has shape \(3,\)"),
    ],
)
def test_refusals(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)

"""Ends of spectra and norms: estimates are inside, certified values outside, and what is counted is what was done.

The certificate may fail with probability δ, so that the starts that would make it fail are told beforehand: it has to
hold whenever the overlap of the start with the eigenvector is at least `least_overlap`, which is a theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pretend import DEVICE, pretending
from torch import Tensor

from boundcheck.constants import Side
from boundcheck.errors import DivergenceError, InputError
from boundcheck.estimate.spectral import (
    Extreme,
    dense_norm,
    dense_symmetric,
    lanczos,
    norm,
    power,
    slack,
)
from boundcheck.estimate.spectral_certificate import ROUNDING, Tridiagonal, least_overlap
from boundcheck.estimate.spectral_dense import passes

F64 = torch.float64
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, F64], ids=["float32", "float64"])


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator(device="cpu").manual_seed(seed)


def planted(spectrum: Tensor, seed: int = 7) -> Tensor:
    """A symmetric matrix with these eigenvalues."""
    n = len(spectrum)
    Q = torch.linalg.qr(torch.randn(n, n, generator=draws(seed), dtype=F64)).Q
    H = (Q * spectrum) @ Q.T
    return (H + H.T) / 2


def times(M: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda v: M @ v


class Counted:
    def __init__(self, M: Tensor) -> None:
        self.M, self.count = M, 0

    def __call__(self, v: Tensor) -> Tensor:
        self.count += 1
        return self.M @ v


def encloses(end: Extreme, truth: float, scale: float, eps: float = torch.finfo(F64).eps, *, low: bool = False) -> None:
    """estimate ≤ truth ≤ value for an upper end; the estimate up to its own rounding."""
    sign, rounding = (-1 if low else 1), 20 * eps * scale
    assert sign * end.estimate <= sign * truth + rounding, end
    assert sign * truth <= sign * end.value, end


def spectra(n: int) -> dict[str, Tensor]:
    line = torch.linspace(0.01, 1, n, dtype=F64)
    return {
        "uniform": line,
        "indefinite": line - 0.7,
        "negative": -line,
        "repeated": torch.cat([line[: n // 2], torch.full((n - n // 2,), 2.0, dtype=F64)]),
        "rank one": torch.cat([torch.zeros(n - 1, dtype=F64), torch.full((1,), 3.0, dtype=F64)]),
        "zero": torch.zeros(n, dtype=F64),
        "identity": torch.ones(n, dtype=F64),
        "minus identity": -torch.ones(n, dtype=F64),
        "tiny": 1e-12 * line,
        "large": 1e12 * (line - 0.2),
    }


PLANTED = pytest.mark.parametrize(
    ("n", "name"),
    [(n, name) for n in (1, 2, 3, 100) for name in spectra(3)]
    + [(1000, name) for name in ("uniform", "indefinite", "repeated", "rank one")],
)


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


@PLANTED
def test_dense_ends_are_certified(n: int, name: str) -> None:
    H = planted(spectra(n)[name])
    spectrum = spectra(n)[name]
    low, top, scale = float(spectrum.min()), float(spectrum.max()), float(spectrum.abs().max())
    found = dense_symmetric(H)
    assert (found.largest.side, found.smallest.side) == (Side.EXACT, Side.EXACT)
    encloses(found.largest, top, n * scale)
    encloses(found.smallest, low, n * scale, low=True)
    margin = found.largest.value - found.largest.estimate
    assert margin <= 4 * (n + 2) ** 2 * torch.finfo(F64).eps * scale
    if scale:  # the factorisation tells a shift that is too small, on either side
        assert passes(H, found.largest.value)
        assert not passes(H, found.largest.value - 2 * margin)
        assert passes(-H, -found.smallest.value)
        assert not passes(-H, -found.smallest.value - 2 * (found.smallest.estimate - found.smallest.value))
    sigma = dense_norm(H)
    encloses(sigma, scale, n * scale)
    assert sigma.value <= (1 + 4 * (n + 2) ** 2 * torch.finfo(F64).eps) * scale


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6), st.floats(-200, 200))
def test_dense_norm_property(rows: int, columns: int, seed: int, exponent: float) -> None:
    J = 10**exponent * torch.randn(rows, columns, generator=draws(seed), dtype=F64)
    found, truth = dense_norm(J), float(torch.linalg.matrix_norm(J, 2))
    assert (1 - 1e-14) * truth <= found.value <= (1 + 1e-12) * truth
    assert found.side is Side.EXACT


@given(
    st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=3, max_size=12),
    st.integers(1, 12),
    st.integers(0, 10**6),
    st.sampled_from([1e-200, 1.0, 1e200]),
)
def test_the_certificate_holds_whenever_the_overlap_is_large_enough(
    values: list[float], most: int, seed: int, size: float
) -> None:
    spectrum = size * torch.tensor([x if abs(x) > 1e-50 else 0 for x in values], dtype=F64)
    n, delta = len(values), 0.3
    b = torch.randn(n, generator=draws(seed), dtype=F64)
    overlaps = (b / b.norm()).abs()  # eigenvectors are coordinates; of a repeated one any may stand for all
    found = lanczos(lambda v: spectrum * v, n, delta=delta, most=most, generator=draws(seed))
    t = least_overlap(n, delta)
    for end, low in ((found.largest, False), (found.smallest, True)):
        truth = float(spectrum.min() if low else spectrum.max())
        if float(overlaps[spectrum == truth].max()) >= t:
            encloses(end, truth, size, low=low)


STARTS, DELTA = 2000, 0.1


def lanczos_rows(spectrum: Tensor, b: Tensor, k: int) -> list[Tridiagonal]:
    """k steps with a diagonal matrix from each row of b at once."""
    q, basis, diagonal, beta = b, [], [], []
    for _ in range(k):
        basis.append(q)
        r = spectrum * q
        diagonal.append((q * r).sum(1))
        for _ in range(2):
            for p in basis:
                r = r - (p * r).sum(1, keepdim=True) * p
        beta.append(r.norm(dim=1))
        q = r / beta[-1][:, None]
    columns = zip(torch.stack(diagonal, 1).tolist(), torch.stack(beta, 1).tolist(), strict=True)
    return [Tridiagonal.of(tuple(a), tuple(c), len(spectrum), torch.finfo(F64).eps) for a, c in columns]


def starts(n: int) -> Tensor:
    b = torch.randn(STARTS, n, generator=draws(3), dtype=F64)
    return b / b.norm(dim=1, keepdim=True)


def plausible(rate: float) -> bool:
    """Is it δ, up to three standard deviations?"""
    return abs(rate - DELTA) <= 3 * math.sqrt(DELTA * (1 - DELTA) / STARTS)


@pytest.mark.parametrize("k", [4, 6])
def test_failure_rate_of_the_certificate(k: int) -> None:
    """One eigenvalue above the rest: the certificate fails for exactly the starts that have too little of it, δ of all.

    Nothing is given away: for most of the starts that it may fail for, it does.
    """
    n, top = 60, 2.0
    spectrum = torch.cat([torch.linspace(0, 1, n - 1, dtype=F64), torch.full((1,), top, dtype=F64)])
    b, t = starts(n), least_overlap(n, DELTA)
    failed = torch.tensor([T.upper_end(t) < top for T in lanczos_rows(spectrum, b, k)])
    unlucky = b[:, -1].abs() < t
    assert not bool((failed & ~unlucky).any())
    assert float(failed.sum()) >= 0.7 * float(unlucky.sum())
    assert plausible(float(unlucky.double().mean()))


@pytest.mark.parametrize("above", [1e-1, 1e-3, 1e-5])
def test_failure_rate_in_single_precision(above: float) -> None:
    """One eigenvalue just above a flat rest: what a start has of it drowns in rounding, which must not be believed."""
    spectrum = torch.ones(200, dtype=torch.float32)
    spectrum[7] += above
    generator, runs = draws(), 300
    product = planted(spectrum.double()).float()
    top = float(torch.linalg.eigvalsh(product.double())[-1])
    found = [
        lanczos(times(product), 200, delta=DELTA, generator=generator, dtype=torch.float32).largest.value
        for _ in range(runs)
    ]
    assert sum(value < top for value in found) <= runs * DELTA + 3 * math.sqrt(runs * DELTA)


def test_overlaps_of_the_size_of_rounding_prove_nothing() -> None:
    """An eigenvector of I, to rounding: another eigenvalue may hide behind an overlap t as far away as rounding/t."""
    n, t, eps = 10_000, 1e-5, torch.finfo(torch.float32).eps
    margin = ROUNDING * eps
    found = Tridiagonal.of((1.0,), (0.0,), n, eps).upper_end(t)
    assert found == pytest.approx(1 + margin + margin / math.sqrt(n) / t, abs=1e-9)


def test_failure_rate_of_the_slack_by_steps_alone() -> None:
    """A rank one matrix and k = 1, where θ = (v₁ᵀb)²: equality in the theorem."""
    theta = starts(50)[:, 0] ** 2
    assert plausible(float((theta * slack(50, 1, DELTA).cosh2 < 1).double().mean()))


def test_slack() -> None:
    assert slack(100_000, 40, 1e-3).cosh2 <= 1.03
    assert slack(100_000, 20, 1e-3).cosh2 == pytest.approx(1.118, abs=1e-3)
    cosh2, sinh2 = slack(1000, 10, 0.01)
    assert cosh2 - sinh2 == pytest.approx(1)
    assert slack(1, 1, 0.5) == (1, 0)
    assert slack(2, 1, 0.5).cosh2 == pytest.approx(2)  # |cos φ| < 1/√2 for half of the angles


@pytest.mark.parametrize("k", [1, 2, 5, 10, 30])
@pytest.mark.parametrize("name", ["uniform", "repeated", "rank one"])
def test_the_run_certifies_no_less_than_its_number_of_steps(name: str, k: int) -> None:
    """A ⪰ 0: never above θ cosh² a, and below θ_min − (λmax − θ_min) sinh² a only by rounding."""
    n, spectrum = 100, spectra(100)[name]
    found = lanczos(lambda v: spectrum * v, n, delta=0.01, most=k, rtol=1e-12, generator=draws(5))
    planned = slack(n, found.largest.steps, 0.01)
    top, low = float(spectrum.max()), found.smallest.estimate
    assert found.largest.value <= found.largest.estimate * planned.cosh2 * (1 + 1e-9)
    assert found.smallest.value >= low - (top - low) * planned.sinh2 - 1e-9


@pytest.mark.parametrize("shape", [(1, 100_000), (30, 100_000), (40, 1), (1, 1), (60, 50), (50, 60)])
def test_rectangular_norms(shape: tuple[int, int]) -> None:
    J = torch.randn(*shape, generator=draws(1), dtype=F64)
    forward, back = Counted(J), Counted(J.T)
    found = norm(forward, back, shape, generator=draws())
    truth = float(torch.linalg.matrix_norm(J, 2))
    encloses(found, truth, truth)
    assert found.estimate == pytest.approx(truth, rel=1e-6)
    assert found.value <= 1.1 * truth
    assert found.products == forward.count + back.count
    assert forward.count == back.count <= 2 * min(shape) + 2
    assert (found.side is Side.EXACT) == (min(shape) < 3)  # the shorter side is the one searched
    encloses(dense_norm(J), truth, truth)


def test_a_norm_is_half_of_a_squared_spectrum() -> None:
    J = torch.randn(60, 50, generator=draws(1), dtype=F64)
    found = norm(times(J), times(J.T), (60, 50), most=9, generator=draws())
    squared = lanczos(times(J.T @ J), 50, most=9, generator=draws()).largest
    assert (found.steps, found.products) == (9, 18)
    assert found.value**2 == pytest.approx(squared.value)
    assert found.slack**2 == pytest.approx(squared.slack)
    assert found.residual * found.estimate == pytest.approx(squared.residual)  # JᵀJv − σ²v = σ(Jᵀu − σv)


def quarter_turns(n: int) -> Tensor:
    return torch.block_diag(*[torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=F64)] * (n // 2))


def test_rotation() -> None:
    """No Rayleigh quotient sees it."""
    J = 0.9 * quarter_turns(40)
    assert power(times(J), 40, 5, generator=draws()) == pytest.approx([0] * 5, abs=1e-15)
    found = norm(times(J), times(J.T), (40, 40), generator=draws())
    assert found.value == pytest.approx(0.9, rel=1e-12)
    assert found.value >= 0.9
    assert found.converged


def test_not_normal() -> None:
    """Norm 5 and spectral radius 0.1."""
    J = 0.1 * torch.eye(50, dtype=F64)
    J[0, 1] = math.sqrt(5**2 + 0.1**4 / 5**2 - 2 * 0.1**2)  # σ₁σ₂ = 0.01, σ₁² + σ₂² = ‖block‖²
    found = norm(times(J), times(J.T), (50, 50), generator=draws())
    assert float(torch.linalg.eigvals(J).abs().max()) == pytest.approx(0.1)
    assert found.estimate == pytest.approx(5)
    assert 5 <= found.value <= 5.0001


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


def test_without_a_certificate() -> None:
    found = lanczos(times(planted(spectra(100)["uniform"])), 100, delta=None, generator=draws()).largest
    assert (found.side, found.delta, found.slack, found.value) == (Side.LOWER, None, 1, found.estimate)


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
        (lambda: slack(10, 5, 1.0), InputError, r"delta = 1\.0 is no failure probability"),
        (lambda: slack(0, 5, 0.1), InputError, "n = 0 is no dimension"),
        (lambda: lanczos(lambda v: v, 0, generator=draws()), InputError, "n = 0 is no dimension"),
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

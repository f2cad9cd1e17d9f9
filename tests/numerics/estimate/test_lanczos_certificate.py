"""What a random start certifies.

The certificate may fail with probability δ, so that the starts that would make it fail are told beforehand: it has to
hold whenever the overlap of the start with the eigenvector is at least `least_overlap`, which is a theorem.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spectra import F64, draws, encloses, planted, spectra, times
from torch import Tensor

from boundcheck.numerics.estimate.lanczos import lanczos, slack
from boundcheck.numerics.estimate.lanczos_certificate import STEP_ROUNDING, Tridiagonal, least_overlap
from boundcheck.side import Side


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
    margin = STEP_ROUNDING * eps
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


def test_without_a_certificate() -> None:
    found = lanczos(times(planted(spectra(100)["uniform"])), 100, delta=None, generator=draws()).largest
    assert (found.side, found.delta, found.slack, found.value) == (Side.LOWER, None, 1, found.estimate)

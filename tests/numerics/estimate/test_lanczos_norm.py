"""Norms of matrices that are not symmetric, or not square, from products."""

from __future__ import annotations

import math

import pytest
import torch
from spectra import F64, Counted, draws, encloses, quarter_turns, times

from boundcheck.numerics.estimate.lanczos import dense_norm, lanczos, norm, power
from boundcheck.side import Side


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

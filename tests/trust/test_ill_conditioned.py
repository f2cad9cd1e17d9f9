"""`hypergradient(problem, rtol=…)` where a small residual says little of the error."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.solvers import conjugate_gradient, normal_equations
from boundcheck.numerics.solvers.krylov_error import KrylovError, Spectrum

FEATURES, SMALL = 60, 4
FEW = 12  # times that the estimate may be below the error: a random z is that far below in 4 % of all draws


def features(scale: float) -> bc.Problem:
    """Ridge regression with a few features in other units than the rest, and hardly any penalty."""
    generator = torch.Generator().manual_seed(1)
    units = torch.ones(FEATURES, dtype=torch.float64)
    units[:SMALL] = scale
    truth = torch.randn(FEATURES, generator=generator, dtype=torch.float64) / units
    X, X_val = (
        units * torch.randn(400, FEATURES, generator=generator, dtype=torch.float64) / math.sqrt(FEATURES)
        for _ in range(2)
    )
    y, y_val = X @ truth, X_val @ truth

    def inner(w: Tensor, h: Tensor) -> Tensor:
        return ((X @ w - y) ** 2).mean() / 2 + h.exp() * (w**2).sum() / 2

    def outer(w: Tensor, h: Tensor) -> Tensor:
        return ((X_val @ w - y_val) ** 2).mean()

    zeros = torch.zeros(FEATURES, dtype=torch.float64)
    return bc.Problem.from_loss(inner, outer, zeros, torch.tensor(-18.0, dtype=torch.float64), 5.0)


@pytest.mark.parametrize("scale", [1e-2, 1e-3])
@pytest.mark.parametrize("rtol", [0.1, 0.01])
def test_an_estimate_knows_the_small_end_of_the_spectrum(scale: float, rtol: float) -> None:
    problem = features(scale)
    truth = bc.hypergradient(problem, "exact").value
    g = bc.hypergradient(problem, rtol=rtol, prove=False)
    error = float((g.value - truth).norm())
    assert error <= FEW * float(g.error.upper)
    assert error <= FEW * rtol * float(truth.norm())
    assert g.descent is bool(float(g.value @ truth) > 0)


def test_where_the_small_end_is_not_resolved_the_error_is_not_known() -> None:
    with pytest.raises(bc.ToleranceError, match=r"the error is not known after \d+ products") as raised:
        bc.hypergradient(features(1e-4), rtol=0.1, prove=False, t=14)
    best = raised.value.best
    assert isinstance(best, bc.AccurateHypergradient)
    assert float(best.error.upper) == best.relative_error == math.inf
    assert best.descent is None
    assert "not known" in repr(best)


@pytest.mark.parametrize("normal", [False, True])
def test_a_run_finds_the_least_eigenvalue_and_its_own_error(normal: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    Q = torch.linalg.qr(torch.randn(40, 40, generator=generator, dtype=torch.float64)).Q
    values = torch.logspace(0, -3, 40, dtype=torch.float64)
    A, b = (Q * values) @ Q.T, torch.randn(40, generator=generator, dtype=torch.float64)

    def product(v: Tensor) -> Tensor:
        return v - A @ v

    spectrum = Spectrum()
    watch = KrylovError(spectrum, lambda v: 1e-4 * float(v.norm()), normal=normal)
    if normal:
        v = normal_equations.solve(product, product, b, 1000, None, 0.5, watch).v
    else:
        v = conjugate_gradient.solve(product, b, 1000, None, 0.5, watch).v
    error = float((v - torch.linalg.solve(A, b)).norm())
    assert float(values[-1]) * (1 - 1e-6) <= spectrum.least <= 1.1 * float(values[-1])
    assert error <= watch.error <= 1e-4 * float(v.norm())

"""The polynomials of heavy ball and Nesterov stay below the factors and slopes of the theorems."""

from __future__ import annotations

import numpy as np
import pytest
import runs
from real_errors import (
    T,
    t,
)
from runs import spectral

from boundcheck.theory import step_sizes
from boundcheck.theory.step_sizes import Momentum

METHODS = [make(1.0, kappa) for make in (step_sizes.heavy_ball, step_sizes.nesterov) for kappa in (1.3, 4, 50, 2000)]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.name}-{m.kappa:g}")
def test_momentum_polynomials_stay_below_factor_and_slope(method: Momentum) -> None:
    """As functions of h they attain them on [μ, L]; as functions of a matrix, along any ‖E‖ = 1, they stay below."""
    h = (1 + (method.kappa - 1) * (1 - np.cos(np.linspace(0, np.pi, 2001))) / 2)[:, None, None]
    P, dP = (abs(x).max(axis=(1, 2, 3)) for x in runs.polynomials(method, h, np.ones_like(h), T))
    np.testing.assert_allclose(P, method.factor(t[:, 0]), rtol=1e-9)
    np.testing.assert_allclose(dP, method.slope(t[:, 0]), rtol=1e-9)
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(300, 5, 5)))[0]
    spectrum = 1 + (method.kappa - 1) * rng.beta(0.3, 0.3, (300, 5))  # crowded at the ends
    E = basis * rng.choice([-1.0, 1.0], (300, 1, 5)) @ np.swapaxes(basis, 1, 2)  # the extreme points of ‖E‖ ≤ 1
    P, dP = runs.polynomials(method, np.einsum("ia,ab->iab", spectrum, np.eye(5)), E, T)
    assert (spectral(P) <= method.factor(t) * (1 + 1e-9)).all()
    assert (spectral(dP) <= method.slope(t) * (1 + 1e-9)).all()


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.name}-{m.kappa:g}")
def test_the_lyapunov_norm_holds_on_the_whole_interval(method: Momentum) -> None:
    for lyapunov in (step_sizes.lyapunov(method, t=10), step_sizes.lyapunov(method, theta=0.5)):
        for h in 1 + (method.kappa - 1) * np.linspace(0, 1, 101):
            M = method.matrix(h)
            power = np.array([np.linalg.matrix_power(M, i) for i in range(T + 1)])
            assert (spectral(power) <= lyapunov.factor(t[:, 0]) * (1 + 1e-9)).all()
            system = np.eye(4) - np.kron(M.T, M.T) / lyapunov.q_P**2
            P = np.linalg.solve(system, np.eye(2).ravel()).reshape(2, 2)
            assert spectral(P) <= lyapunov.stretch * (1 + 1e-6)  # a 4×4 system of condition 1e6 or so

"""The random instances have the constants and gradients that they say."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import runs
from runs import Array, Instance, norm, spectral
from test_chains_hold import SEEDS, instances


@pytest.mark.parametrize("seed", SEEDS)
def test_the_constants_of_the_instances_are_bounds(seed: int) -> None:
    """Sampled in their ball, no quantity exceeds its constant: a violated bound is not the instance's fault."""
    rng = np.random.default_rng(seed)
    for instance, local in product(instances(seed), (True, False)):
        w_star, d = instance.w_star, instance.w_0.size
        constants = instance.local() if local else instance.paper()
        centre, radius = (w_star, constants["r_0"]) if local else (0 * w_star, 2 * constants["D"])
        direction = rng.normal(size=(200, d))
        w = centre + radius * rng.uniform(0, 1, (200, 1)) ** (1 / d) * direction / norm(direction)[:, None]
        Y, Z, b, c = (f(w) for f in (instance.d1phi, instance.d2phi, instance.grad_w, instance.grad_lam))
        gap = np.linalg.svd(np.eye(d) - Y, compute_uv=False)
        sampled = {
            "q": spectral(Y),
            "L_Phi": spectral(Z),
            "L_E": norm(b),
            "nu_1": spectral(Y - instance.d1phi(w_star)) / norm(w - w_star),
            "nu_2": spectral(Z - instance.d2phi(w_star)) / norm(w - w_star),
            "eta_1": norm(b - instance.grad_w(w_star)) / norm(w - w_star),
            "eta_2": norm(c - instance.grad_lam(w_star)) / norm(w - w_star),
            "kappa": gap[:, 0] / gap[:, -1],
        }
        for name, values in sampled.items():
            assert values.max() <= constants[name] * (1 + 1e-9) + 1e-9, name
        assert gap.min() >= constants["mu_inv"] * (1 - 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gradients_of_the_instances_are_derivatives(seed: int) -> None:
    """ITD's and the exact one against central differences of E(w_t(λ), λ), at t = 5 and at t = 3000 for w(λ)."""

    def f(instance: Instance, lam: Array, t: int) -> float:
        w = instance.w_0
        for _ in range(t):
            w = instance.phi(w, lam)
        return float(instance.outer(w, lam))

    for instance in instances(seed):
        last = runs.iterate(instance, instance.w_0, 5)
        unrolled = instance.grad_lam(last.w[-1]) + last.u[-1].T @ instance.grad_w(last.w[-1])
        for t, gradient in ((5, unrolled), (3000, instance.hypergradient)) if seed < 3 else ((5, unrolled),):
            steps = 1e-5 * np.eye(instance.lam.size)
            ends = [[f(instance, instance.lam + sign * h, t) for sign in (1, -1)] for h in steps]
            difference = np.array([(up - down) / 2e-5 for up, down in ends])
            np.testing.assert_allclose(gradient, difference, rtol=1e-4, atol=1e-5 * (1 + norm(gradient)))

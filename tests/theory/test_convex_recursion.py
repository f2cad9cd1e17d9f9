"""Gradient descent on convex examples along any steps: rounding, exact means, the linear system, and advice."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from exact_moments import AffineSum
from hypothesis import given, settings
from hypothesis import strategies as st

from boundcheck import AssumptionError, InputError, bounds
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.convex_recursion import ConvexDescent, convex_distance
from boundcheck.theory.convex_steps import advise_convex, best_convex_steps
from boundcheck.theory.stochastic_recursion import mean_square_distance

KNOWN = {"alpha": 0.5, "mu": 0.1, "L": 2.0, "mu_ell_hat": 0.05, "L_ell_hat": 3.0, "V_star": 0.02, "mse_0": 4.0}
DESCENT = ConvexDescent(**KNOWN)
SHARES = st.floats(0, 1).map(lambda x: x if x > 1e-6 else 0.0)


def test_the_recursion_with_a_constant_step_is_the_bound_of_the_catalogue() -> None:
    values = bounds["sgd-convex"].evaluate(KNOWN, np.arange(60), eta=0.37).values
    found = convex_distance(StepSchedule.constant(0.37), 59, DESCENT, rigorous=False)
    np.testing.assert_allclose(found, values, rtol=1e-13)
    at_once = DESCENT.after(found[:-1], np.full(59, 0.37))
    np.testing.assert_allclose(at_once, found[1:], rtol=1e-13)


@given(st.tuples(*[SHARES] * 5), st.floats(0.01, 0.99), st.sampled_from((0.0, 1e-3, 5.0)))
@settings(max_examples=60)
def test_the_recursion_is_the_largest_of_what_a_step_may_do_and_rounded_up(
    shares: tuple[float, ...], step: float, V_star: float
) -> None:
    """At least the right-hand side at 40 mean curvatures in 40 digits, and at most 200u of ρ above its maximum."""
    L, alpha = 0.5 + shares[0], 1.0
    mu = L * (0.01 + 0.98 * shares[1])
    apart, noisy, rho = mu * shares[2], 3 * shares[3], 2 * shares[4]
    descent = ConvexDescent(alpha, mu, L, apart, noisy, V_star, rho)
    eta = min(step * 2 / descent.steep, 1.0)
    value = convex_distance(StepSchedule.constant(eta), 1, descent)[1]
    with mpmath.workdps(40):
        a, b, e, r = (mpmath.mpf(x) for x in (mu, L, eta, rho))

        def after(x: mpmath.mpf) -> mpmath.mpf:
            noise = mpmath.sqrt(noisy * (x - mpmath.mpf(apart)) * r) + mpmath.sqrt(mpmath.mpf(V_star))
            return r * (1 - e * e * a * b - e * (2 - e * (a + b)) * x) + e * e * noise**2

        highest = max(after(a + (b - a) * i / 40) for i in range(41))
        assert value >= highest * (1 - mpmath.mpf(10) ** -30)
        if rho:  # the maximum itself, in the closed form
            worst = noisy * V_star / r * (e / (2 - e * (a + b + noisy))) ** 2
            highest = max(highest, after(min(b, max(a, apart + worst))))
            assert highest <= value <= highest * (1 + 200 * 2.0**-53) + 200 * 2.0**-53 * r


def quadratic(seed: int) -> AffineSum:
    """Examples ½(x−c_i)ᵀH_i(x−c_i) of which some are flat in some directions, and a common ridge for even seeds."""
    rng = np.random.default_rng(seed)
    N, d, alpha = 4, 3, 0.2
    roots = rng.normal(size=(N, d, 1 + seed % 3)) * [[[1.0]], [[0.3]], [[2.0]], [[1.0]]]
    H = roots @ roots.swapaxes(1, 2) / 2 + 0.3 * (seed % 2 == 0) * np.eye(d)
    H /= max(np.linalg.norm(h, 2) for h in H)
    A = np.eye(d) - alpha * H
    offsets = alpha * (H @ rng.normal(size=(N, d, 1)))[..., 0]
    none = np.zeros((d, d))
    return AffineSum(
        A, np.zeros((N, d, 1)), offsets, none, rng.normal(size=d), none[:1], np.zeros(1), np.zeros(1),
        rng.normal(size=d) * 3, alpha,
    )  # fmt: skip


def descent_of(instance: AffineSum) -> ConvexDescent:
    each = np.linalg.eigvalsh((np.eye(3) - instance.A) / instance.alpha)
    whole = np.linalg.eigvalsh((np.eye(3) - instance.A.mean(0)) / instance.alpha)
    at_star = instance.A @ instance.w_star + instance.offsets - instance.w_star
    apart = max(each.min(), 0.0)
    return ConvexDescent(
        instance.alpha, whole[0] * (1 - 1e-12), whole[-1], min(apart, whole[0] * (1 - 1e-12)), each.max() - apart,
        (at_star**2).sum(1).mean(), ((instance.w_0 - instance.w_star) ** 2).sum(),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_exact_means_of_quadratic_examples_with_random_steps(seed: int) -> None:
    """E‖w_t−w*‖² and E‖v_k−v‖² over all draws are below, for steps that go up and down."""
    instance = quadratic(seed)
    descent, rng = descent_of(instance), np.random.default_rng(seed)
    linear = descent.at_linear_system(float(np.linalg.norm(instance.h)), math.inf)
    eta = np.minimum(rng.uniform(0.05, 1.9 / descent.steep, 30), 1.0)
    means = instance.means(eta, eta)
    for start, exact in ((descent, means.mse_w), (linear, means.mse_v[0])):
        rho = start.mse_0
        for i, step in enumerate(eta):
            assert exact[i] <= rho * (1 + 1e-12)
            rho = start.after_one(rho, step)


def test_half_of_the_noise_of_the_curvature_is_not_enough() -> None:
    """In one dimension with curvatures 0 and 2 the bound is the mean, and half of L̂ is too little."""
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    A = np.array([[[1.0]], [[0.6]]])  # α = 0.2
    instance = AffineSum(A, np.zeros((2, 1, 1)), np.zeros((2, 1)), zero, one[0], zero, zero[0], zero[0], one[0], 0.2)
    exact = instance.means([0.9] * 5, []).mse_w[5]
    # of two draws the variance of the curvature is (x−0)(2−x) = 1 at x = 1, and L̂ = 2 − μ would do
    full, half = (
        convex_distance(StepSchedule.constant(0.9), 5, ConvexDescent(0.2, 1.0, 1.0, 0.0, L_hat, 0.0, 1.0))[-1]
        for L_hat in (1.0, 0.5)
    )
    assert full == pytest.approx(float(exact), rel=1e-12)
    assert half < 0.99 * exact


def test_twice_the_least_curvature_of_an_example_is_too_much() -> None:
    """In one dimension with curvatures 1/2 and 3/2 the variance 1/4 is L̂(1 − μ̂) with L̂ = μ̂ = 1/2."""
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    A = np.array([[[0.9]], [[0.7]]])  # α = 0.2
    instance = AffineSum(A, np.zeros((2, 1, 1)), np.zeros((2, 1)), zero, one[0], zero, zero[0], zero[0], one[0], 0.2)
    exact = float(instance.means([0.9] * 5, []).mse_w[5])
    right, wrong = (
        convex_distance(StepSchedule.constant(0.9), 5, ConvexDescent(0.2, 1.0, 1.0, mu_hat, 0.5, 0.0, 1.0))[-1]
        for mu_hat in (0.5, 1.0)
    )
    assert right == pytest.approx(exact, rel=1e-12)
    assert wrong < 0.99 * exact


def test_without_noise_of_the_curvature_it_is_the_contraction() -> None:
    quiet = ConvexDescent(0.5, 1.0, 3.0, 0.0, 0.0, 0.02, 4.0)
    found = convex_distance(StepSchedule.constant(0.9), 40, quiet, rigorous=False)
    contraction = mean_square_distance(
        StepSchedule.constant(0.9), 40, q=0.5, m_1=0.0, V_star=0.02, mse_0=4.0, rigorous=False
    )
    np.testing.assert_allclose(found, contraction, rtol=1e-13)


CASES = [
    KNOWN | {"V_star": V_star, "mu": mu, "mu_ell_hat": apart * mu, "mse_0": 1.0}
    for V_star in (1e-6, 1.0)
    for mu in (1e-3, 1.0)
    for apart in (0.0, 1.0)
]


@pytest.mark.parametrize("known", CASES, ids=str)
def test_the_advice_is_close_to_the_best_step_every_time(known: dict[str, float]) -> None:
    descent, t = ConvexDescent(**known), 200
    best = descent.mse_0
    for eta in best_convex_steps(descent, t):
        others = descent.after(best, eta * np.array([0.9, 1 / 0.9]).clip(max=1.0))
        best = descent.after_one(best, eta)
        assert best <= others.min() * (1 + 1e-5)
    assert convex_distance(advise_convex(descent, t), t, descent)[-1] <= 1.1 * best
    others = (StepSchedule(0.3), StepSchedule.decreasing(2 / descent.weak, 8 / descent.weak))
    assert min(convex_distance(other, t, descent)[-1] for other in others) >= best * (1 - 1e-4)


def test_advice_without_noise_steps_or_distance() -> None:
    quiet = ConvexDescent(**KNOWN | {"V_star": 0.0})
    assert advise_convex(quiet, 50).switch is None
    assert advise_convex(DESCENT, 0).switch is None
    assert advise_convex(ConvexDescent(**KNOWN | {"mse_0": 0.0}), 5).at(0) <= 1e-9  # at w* a step only adds noise
    assert advise_convex(DESCENT, 10_000).switch is not None
    with pytest.raises(InputError, match="t = -1 < 0"):
        advise_convex(DESCENT, -1)


def test_what_is_refused() -> None:
    with pytest.raises(AssumptionError, match=r"η_0·α\(μ\+L\+L̂\) = 2.55, and has to be below 2; take .* 0.784"):
        convex_distance(StepSchedule.constant(1.0), 3, DESCENT)
    with pytest.raises(AssumptionError, match=r"mu = 3 > L = 2"):
        ConvexDescent(**KNOWN | {"mu": 3.0})
    with pytest.raises(AssumptionError, match=r"mu_ell_hat = 0.2 > mu = 0.1"):
        ConvexDescent(**KNOWN | {"mu_ell_hat": 0.2})
    with pytest.raises(InputError, match="t = -1 < 0"):
        convex_distance(StepSchedule.constant(0.1), -1, DESCENT)

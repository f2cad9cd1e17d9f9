"""Stochastic iterations: the theorems along a schedule, the advice on steps, and the numbers of the corollary."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from boundcheck import AssumptionError, InputError, bounds
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.lemmas import W_BOUND
from boundcheck.theory.stochastic_recursion import mean_square_distance, mean_square_distance_of_paper
from boundcheck.theory.stochastic_steps import advise, advise_recursive, best_steps
from boundcheck.theory.stochastic_terms import WEIGHT, WEIGHT_WITH_TRUE_W
from boundcheck.theory.symbols import (
    L_E,
    L_Phi_star,
    W,
    eta_1,
    eta_2,
    nu_1,
    nu_2,
    q,
)

KNOWN = {"q": 0.9, "m_1": 0.3, "V_star": 0.02, "mse_0": 4.0}
NOISE = {"q": 0.9, "sigma_1": 0.04, "sigma_2": 3.0, "mse_0": 4.0}
SWITCHING = StepSchedule(0.2, 30, 12.0, 60.0)


def test_c_1_is_that_of_the_paper() -> None:
    printed = eta_2 + (eta_1 * L_Phi_star + nu_2 * L_E) / (1 - q) + nu_1 * L_E * L_Phi_star / (1 - q) ** 2
    assert sp.simplify(WEIGHT - printed) == 0
    assert sp.simplify(WEIGHT_WITH_TRUE_W.subs(W, W_BOUND) - printed) == 0


def test_the_recursion_with_a_constant_step_is_the_bound_of_the_catalogue() -> None:
    steps, t = StepSchedule.constant(0.37), np.arange(60)
    values = bounds["stochastic-recursive"].evaluate(KNOWN, t, eta=0.37).values
    np.testing.assert_allclose(mean_square_distance(steps, 59, **KNOWN, rigorous=False), values, rtol=1e-14)


def test_the_recursion_without_noise_and_with_full_steps_is_the_contraction() -> None:
    quiet = {"q": 0.75, "m_1": 0.0, "V_star": 0.0, "mse_0": 2.0}
    values = mean_square_distance(StepSchedule.constant(1.0), 40, **quiet, rigorous=False)
    np.testing.assert_allclose(values, 2 * 0.75 ** (2 * np.arange(41)), rtol=1e-14)


NUMBER = st.floats(0, 5).map(lambda x: x if x > 1e-6 else 0.0)


@given(
    st.floats(0, 0.999).map(lambda x: x if x > 1e-6 else 0.0),
    NUMBER,
    NUMBER,
    NUMBER,
    st.sampled_from((SWITCHING, StepSchedule(1.0))),
)
@settings(max_examples=40)
def test_the_recursion_is_rounded_up(q: float, m_1: float, V_star: float, mse_0: float, steps: StepSchedule) -> None:
    """Above the recursion in 50 digits and within 40tu of it, where nothing underflows."""
    values = mean_square_distance(steps, 40, q=q, m_1=m_1, V_star=V_star, mse_0=mse_0)
    with mpmath.workdps(50):
        rho = mpmath.mpf(mse_0)
        for i in range(41):
            assert values[i] >= rho
            assert values[i] <= max(rho * (1 + 40 * i * 2.0**-53), 1e-280)
            eta = mpmath.mpf(steps.at(i))
            noise = mpmath.sqrt(mpmath.mpf(m_1) * rho) + mpmath.sqrt(mpmath.mpf(V_star))
            rho = (1 - eta + eta * mpmath.mpf(q)) ** 2 * rho + (eta * noise) ** 2


def test_no_underflow_makes_the_recursion_too_small() -> None:
    known = {"q": 0.0, "m_1": 1e-3, "V_star": 0.0, "mse_0": 1.0}
    assert (mean_square_distance(StepSchedule.constant(1.0), 400, **known) > 0).all()


def test_the_paper_in_two_phases_is_theorem_4_1_and_then_4_2() -> None:
    found = mean_square_distance_of_paper(SWITCHING, 100, **NOISE)
    first = bounds["stochastic-constant"].evaluate(NOISE, np.arange(31), eta=0.2).values
    second = bounds["stochastic-decreasing"].evaluate(
        NOISE | {"mse_0": first[-1]}, np.arange(1, 71), beta=12.0, gamma=60.0
    )
    assert found.reason == ""
    np.testing.assert_array_equal(found.values, [*first, *second.values])


@pytest.mark.parametrize(
    ("steps", "known", "reason"),
    [
        (StepSchedule.constant(0.3), 1, r"eta = 0.3 > .*= 0.25.*η at most 1/\(1\+σ₂\)"),
        (StepSchedule.decreasing(5.0, 60.0), 1, r"= 5.26316 ≥ beta = 5; take β above 1/\(1−q²\)"),
        (StepSchedule.decreasing(12.0, 40.0), 1, r"= 48 > gamma = 40; take γ at least β\(1\+σ₂\)"),
        (StepSchedule(0.2, 30, 5.0, 60.0), 31, "beta = 5"),
    ],
)
def test_steps_that_a_theorem_forbids_have_no_value_from_there_on(steps: StepSchedule, known: int, reason: str) -> None:
    found = mean_square_distance_of_paper(steps, 100, **NOISE)
    assert np.isfinite(found.values[:known]).all()
    assert np.isnan(found.values[known:]).all()
    with pytest.raises(AssumptionError, match=reason):
        raise AssumptionError(found.reason)


@pytest.mark.parametrize(
    ("name", "own", "limit"),
    [
        ("stochastic-constant", {"eta": 0.02}, r"= 0\.0163934"),
        ("stochastic-decreasing", {"beta": 10, "gamma": 600}, "= 610 >"),
    ],
)
def test_without_sigma_the_noise_is_bounded_by_m_1_and_V_star(name: str, own: dict[str, float], limit: str) -> None:
    """σ₁ = 2V* and σ₂ = 2m₁/(1−q)² = 60, in the condition too; what is given comes first."""
    with pytest.raises(AssumptionError, match=limit):
        bounds[name].evaluate(KNOWN, 5, **own)
    fitting = {"eta": 0.01} if "eta" in own else {"beta": 10, "gamma": 611}
    value = bounds[name].evaluate(KNOWN, 5, **fitting).values
    assert value == bounds[name].evaluate(KNOWN | {"sigma_1": 0.04, "sigma_2": 60.0}, 5, **fitting).values
    assert bounds[name].evaluate(KNOWN | {"sigma_1": 0.04, "sigma_2": 1.0}, 5, **own).values > 0


@pytest.mark.parametrize("name", ["stochastic-constant", "stochastic-decreasing", "sid"])
def test_printed_forms_of_the_paper(name: str) -> None:
    """Theorems 4.1, 4.2 and 5.1 as printed, at one point in floats."""
    known = {"q": 0.8, "sigma_1": 0.3, "sigma_2": 1.0, "mse_0": 5.0}
    if name == "stochastic-constant":
        limit = 0.4 * 0.3 / (1 - 0.64)
        printed = (1 - 0.4 * (1 - 0.64)) ** 7 * (5.0 - limit) + limit
        value = bounds[name].evaluate(known, 7, eta=0.4).values
    elif name == "stochastic-decreasing":
        printed = max(20 * 5.0, 16 * 0.3 / (4 * 0.36 - 1)) / (20 + 7)
        value = bounds[name].evaluate(known, 7, beta=4, gamma=20).values
    else:
        known = dict.fromkeys(("nu_1", "nu_2", "eta_1", "eta_2"), 0.1) | {"q": 0.8, "L_E": 2.0, "L_Phi_star": 3.0}
        known |= {"m_2": 0.7, "L_Phi_hat": 0.9, "V_star": 0.15, "mse_0": 5.0}
        c_1 = 0.1 + (0.1 * 3 + 0.1 * 2) / 0.2 + 0.1 * 2 * 3 / 0.04
        rho = max(400 * 5.0, 16 * 2 * 0.15 / (4 * 0.36 - 1)) / (400 + 7)
        sigma = 4 / 0.04 * max(400, 2 * 16 * 0.81 / (4 * 0.36 - 1)) / (400 + 9)
        printed = 2 * 0.7 * 4 / 0.04 + 6 * c_1**2 * rho + 2 * (4 * 9 + 0.7) * sigma + 8 * 0.01 * rho * sigma
        value = bounds[name].evaluate(known, 7, 9, beta=4, gamma=400).values
    assert float(value) == pytest.approx(printed, rel=1e-13)


def test_printed_forms_of_section_3() -> None:
    """Theorems 3.1 to 3.4 and our form of the last as printed, at one point in floats."""
    known = {"q": 0.8, "nu_1": 0.3, "nu_2": 0.7, "eta_1": 0.2, "eta_2": 0.1, "L_E": 2.0, "L_Phi_star": 3.0, "m_2": 0.6}
    rho, sigma, V, m_2 = 1.7, 2.3, 2.0 / 0.2, 0.6
    c_1 = 0.1 + (0.2 * 3 + 0.7 * 2) / 0.2 + 0.3 * 2 * 3 / 0.04
    off = c_1 * rho**0.5 + 3 * sigma**0.5 + 0.7 * (rho * sigma) ** 0.5
    printed = {
        "sid-bias": off,
        "sid-variance-given-w": 2 * m_2 * V**2 + 2 * (9 + m_2) * sigma + 2 * 0.49 * rho * sigma,
        "sid-variance-of-mean": 3 * (c_1**2 * rho + 9 * sigma + 0.49 * rho * sigma),
        "sid-mse": 2 * m_2 * V**2 + 6 * c_1**2 * rho + 2 * (36 + m_2) * sigma + 8 * 0.49 * rho * sigma,
        "sid-orthogonal": off**2 + m_2 * (V + sigma**0.5) ** 2,
    }
    for name, value in printed.items():
        assert float(bounds[name].evaluate(known, mse_w=rho, mse_v=sigma).values) == pytest.approx(value, rel=1e-13)
    with_w = bounds["sid-orthogonal"].evaluate(known, mse_w=rho, mse_v=sigma, W=1.1).values
    c = 0.1 + 0.2 * 1.1 + (0.7 + 0.3 * 1.1) * V
    off = c * rho**0.5 + 3 * sigma**0.5 + 0.7 * (rho * sigma) ** 0.5
    assert float(with_w) == pytest.approx(off**2 + m_2 * (V + sigma**0.5) ** 2, rel=1e-13)


@pytest.mark.parametrize("of_mu", [False, True], ids=["α = 1/L", "α = 2/(L+μ)"])
def test_the_numbers_of_corollary_4_1(of_mu: bool) -> None:
    """r₁, r₂ and r₃ as printed, in rational arithmetic."""
    mu, L, eta, beta = Fraction(1, 5), Fraction(2), Fraction(1, 3), Fraction(30)
    s_1, mse_0, gamma = Fraction(7, 10), Fraction(1, 1000), Fraction(90)
    if of_mu:
        r_1, r_2 = 1 - 4 * eta * mu * L / (L + mu) ** 2, eta * s_1 / (mu * L)
        r_3 = 4 * beta**2 * s_1 / (4 * beta * mu * L - (L + mu) ** 2)
    else:
        r_1, r_2 = 1 - eta * mu / L * (2 - mu / L), eta * s_1 / (mu * (2 * L - mu))
        r_3 = beta**2 * s_1 / (beta * mu * (2 * L - mu) - L**2)
    alpha = 2 / (L + mu) if of_mu else 1 / L
    known = {"mu": mu, "L": L, "alpha": alpha, "sigma_1_grad": s_1, "sigma_2_grad": 2, "mse_0": mse_0}
    known = {name: float(value) for name, value in known.items()}
    constant = bounds["sgd-constant"].evaluate(known, 9, eta=float(eta)).values
    assert float(constant) == pytest.approx(float(r_1**9 * (mse_0 - r_2) + r_2), rel=1e-13)
    decreasing = bounds["sgd-decreasing"].evaluate(known, 9, beta=float(beta), gamma=float(gamma)).values
    assert r_3 > gamma * mse_0
    assert float(decreasing) == pytest.approx(float(r_3 / (gamma + 9)), rel=1e-13)


def test_the_advice_of_the_paper() -> None:
    """η = 1/(1+σ₂) until the bound of Theorem 4.1 is at most twice its limit, then β = 2/(1−q²) from the same step."""
    steps = advise(**NOISE, t=10_000)
    limit = 0.25 * NOISE["sigma_1"] / 0.19
    values = bounds["stochastic-constant"].evaluate(NOISE, np.arange(1000), eta=0.25).values
    assert steps.eta == 0.25
    assert steps.switch == int(np.argmax(values <= 2 * limit)) > 0
    assert steps.beta == pytest.approx(2 / 0.19)
    assert steps.at(steps.switch) == pytest.approx(0.25)
    assert mean_square_distance_of_paper(steps, 200, **NOISE).reason == ""
    assert advise(**NOISE, t=steps.switch).switch is None
    assert advise(**NOISE | {"sigma_1": 0.0}, t=10**6).switch is None
    assert advise(**NOISE | {"mse_0": 0.01}, t=100).switch == 0


CASES = list(product((0.0, 0.5, 0.9, 0.99), (0.0, 0.1, 10.0), (1e-6, 1e-2, 1.0), (1, 10, 300)))


@pytest.mark.parametrize("q", sorted({case[0] for case in CASES}))
def test_the_steps_that_are_best_for_the_recursion(q: float) -> None:
    """No schedule beats the best step at every i, and the advice is within 10% of it."""
    for _, m_1, V_star, t in (case for case in CASES if case[0] == q):
        known = {"q": q, "m_1": m_1, "V_star": V_star, "mse_0": 1.0}
        best = 1.0
        for eta in best_steps(**known, t=t):
            best = (1 - eta * (1 - q)) ** 2 * best + eta**2 * (math.sqrt(m_1 * best) + math.sqrt(V_star)) ** 2
        values = mean_square_distance(advise_recursive(**known, t=t), t, **known)
        assert best * (1 - 1e-12) <= values[-1] <= 1.1 * best
        others = (StepSchedule(0.7), StepSchedule(0.1), StepSchedule.decreasing(2 / (1 - q), 4 / (1 - q)))
        assert min(mean_square_distance(other, t, **known)[-1] for other in others) >= best * (1 - 1e-12)


def test_advice_without_noise_or_steps() -> None:
    quiet = {"q": 0.5, "m_1": 0.0, "V_star": 0.0, "mse_0": 1.0}
    assert advise_recursive(**quiet, t=50) == StepSchedule.constant(1.0)
    assert advise_recursive(**KNOWN, t=0) == StepSchedule.constant(1.0)
    assert advise_recursive(**KNOWN | {"mse_0": 0.0}, t=5).at(0) <= 1e-9  # at w* a step only adds noise
    with pytest.raises(InputError, match="t = -1 < 0"):
        advise_recursive(**KNOWN, t=-1)
    with pytest.raises(AssumptionError, match=r"q = 1 ≥ 1"):
        advise(**NOISE | {"q": 1.0}, t=5)


@pytest.mark.parametrize("name", ["stochastic-constant", "stochastic-decreasing", "stochastic-recursive", "sid"])
def test_iterations_for_an_accuracy(name: str) -> None:
    known = dict.fromkeys(("nu_1", "nu_2", "eta_1", "eta_2", "m_2"), 0.0) | {"L_E": 1.0, "L_Phi_star": 1.0}
    known |= {"q": 0.5, "m_1": 0.1, "V_star": 0.1, "mse_0": 1.0, "L_Phi_hat": 0.6}
    own = {"beta": 3.0, "gamma": 20.0} if name in ("sid", "stochastic-decreasing") else {"eta": 0.1}
    eps = 2.0 if name == "sid" else 0.2
    found = bounds[name].iterations(known, eps, **own)
    assert found.value <= eps
    before = bounds[name].evaluate(known, max(found.t - 1, 0), found.k - (found.t == 0) if found.k else None, **own)
    assert float(before.values) > eps


@pytest.mark.parametrize("name", ["stochastic-constant", "stochastic-recursive", "sid"])
def test_an_accuracy_below_the_floor_is_refused_with_the_floor(name: str) -> None:
    known = dict.fromkeys(("nu_1", "nu_2", "eta_1", "eta_2"), 0.0) | {"L_E": 1.0, "L_Phi_star": 1.0, "m_2": 0.1}
    known |= {"q": 0.5, "m_1": 0.1, "V_star": 0.1, "mse_0": 1.0, "L_Phi_hat": 0.6}
    own = {"beta": 3.0, "gamma": 20.0} if name == "sid" else {"eta": 0.1}
    with pytest.raises(InputError, match=r"iterations the bound is 0\.0\d+|it is 0\.8$"):
        bounds[name].iterations(known, 1e-3, **own)


def test_theorem_5_1_where_the_noise_of_v_decides_and_where_it_says_nothing() -> None:
    """β(1−q²)−1 = 0.008, so that 2β²L_Φ̂²/0.008 is above γ; the condition of Theorem 4.3 is γ ≥ β(1+72.5)."""
    known = dict.fromkeys(("nu_1", "nu_2", "eta_1", "eta_2", "m_2", "V_star", "mse_0"), 0.0) | {"L_Phi_star": 3.0}
    known |= {"q": 0.8, "L_E": 2.0, "L_Phi_hat": 0.9}
    printed = 8 * 9 * 4 / 0.04 * (2 * 2.8**2 * 0.81 / 0.008) / (210 + 9)
    assert float(bounds["sid"].evaluate(known, 7, 9, beta=2.8, gamma=210).values) == pytest.approx(printed, rel=1e-11)
    with pytest.raises(AssumptionError, match=r"= 205\.8 > gamma = 205"):
        bounds["sid"].evaluate(known, 7, 9, beta=2.8, gamma=205)


@pytest.mark.parametrize(
    ("name", "own", "limit"),
    [
        ("sgd-constant", {"eta": 0.26}, r"= 0\.25;"),
        ("sgd-decreasing", {"beta": 30, "gamma": 119}, r"= 120 > gamma = 119"),
    ],
)
def test_steps_of_gradient_descent_that_the_corollary_forbids(name: str, own: dict[str, float], limit: str) -> None:
    known = {"mu": 0.2, "L": 2.0, "alpha": 0.5, "sigma_1_grad": 1.0, "sigma_2_grad": 3.0, "mse_0": 1.0}
    with pytest.raises(AssumptionError, match=limit):
        bounds[name].evaluate(known, 5, **own)

"""Errata 1 to 6: on a small instance the paper's assumption or constant fails and the corrected statement holds.

Arithmetic is rational unless a test says otherwise, so an inequality that holds by equality is tested as such.
"""

from __future__ import annotations

import math
from fractions import Fraction as Q

import numpy as np
import pytest
import sympy as sp
from problems import AFFINE, HALF, HyperRepresentation, Problem, affine, exact, quadratic

from boundcheck import AssumptionError, bounds
from boundcheck.theory import symbols
from boundcheck.theory.step_sizes import gradient_descent, heavy_ball


def test_erratum_01_L_Phi_at_the_solution_is_too_small_for_general_aid() -> None:
    alpha, D = HALF, Q(1)
    problem = quadratic(alpha)
    w_1 = Q(0) + Q(19, 10) * (1 - Q(0))  # gradient descent with step 1.9 from 0
    v_t, v_1 = problem.solve(w_1), Q(38, 10) * problem.d1E(w_1)  # Richardson with factor 1 − 3.8/2 = −.9 from 0
    rho, sigma = abs(w_1 - problem.w_star), abs(v_1 - v_t) / abs(v_t)
    constants = {"q": HALF, "nu_1": 0, "nu_2": alpha, "eta_1": 0, "eta_2": 0, "L_E": 1, "D": D}

    error = problem.aid_error(w_1, v_1)
    appendix_b = exact("aid-contraction", **constants, L_Phi=alpha * problem.w_star, rho=rho, sigma=sigma)
    on_the_ball = exact("aid-contraction", **constants, L_Phi=alpha * 2 * D, rho=rho, sigma=sigma)
    assert (error, appendix_b, on_the_ball) == (Q("2.61"), Q("1.80"), Q("2.70"))
    assert appendix_b < error <= on_the_ball
    assert on_the_ball == exact("aid", **constants, L_Phi=alpha * 2 * D, rho=rho, sigma=sigma, mu_inv=1 - HALF)


def test_erratum_01_L_Phi_at_the_solution_is_enough_from_zero() -> None:
    """‖v_{t,k}‖ ≤ L_E/(1−q) for fixed-point steps from 0; then appendix B holds, for AID-FP and for general AID."""
    problem, factor = quadratic(HALF), Q(-9, 10)
    gd = {"alpha": HALF, "mu": 1, "L": 1, "L_ell": problem.w_star, "hat_rho_1": 0, "hat_rho_2": 1}
    outer = {"eta_1": 0, "eta_2": 0, "L_E": 1, "D": 1}
    at_solution = {"q": HALF, "nu_1": 0, "nu_2": HALF, "L_Phi": HALF * problem.w_star}
    for deviation in (*(factor**steps for steps in range(7)), Q(0)):  # gradient descent with step 1.9, and its limit
        w, rho = problem.w_star * (1 - deviation), abs(deviation)
        for k in range(7):
            v = problem.fixed_point(w, k)
            assert abs(v) <= 1 / (1 - HALF)
            assert problem.aid_error(w, v) <= exact("aid-fp-gd", k=k, **gd, **outer, rho=rho)
            assert problem.aid_error(w, v) <= exact(
                "aid-contraction", k=k, **at_solution, **outer, rho=rho, sigma=HALF**k
            )


@pytest.mark.parametrize("claimed", [1, 10**3, 10**9])
def test_erratum_02_no_global_constant_on_hyper_representation(claimed: int) -> None:
    instance = HyperRepresentation(y=Q(2), y_val=Q(-1))
    d2E, w = instance.problem.d2E, (claimed + abs(instance.y_val)) / instance.lam + 1
    assert abs(d2E(w) - d2E(Q(0))) > claimed * abs(w)


@pytest.mark.parametrize("claimed", [1.0, 1e3, 1e9])
def test_erratum_02_no_global_constant_on_equilibrium_models(claimed: float) -> None:
    """tanh(Aw) with A = diag(½, 0), differentiated by the first row of A; in floats, with a margin of twice."""

    def d2phi(w: np.ndarray) -> np.ndarray:
        return w / math.cosh(w[0] / 2) ** 2

    w = np.array([0.0, 10 * claimed])
    step = np.array([1.0, 0.0])
    assert np.linalg.norm(d2phi(w + step) - d2phi(w)) > 2 * claimed * np.linalg.norm(step)


def test_erratum_02_calmness_on_the_ball_is_enough() -> None:
    instance = HyperRepresentation(y=Q(2), y_val=Q(3), beta=Q(2))
    problem = instance.problem
    D = r_0 = problem.w_star
    phi = {"q": HALF, "nu_1": 0, "nu_2": 2 * instance.alpha * instance.lam}
    paper_ball = {
        "eta_1": instance.lam**2,
        "eta_2": instance.calmness_of_d2E(-2 * D, 2 * D),
        "L_E": max(abs(problem.d1E(2 * D)), abs(problem.d1E(-2 * D))),
        "L_Phi": max(abs(problem.d2phi(2 * D)), abs(problem.d2phi(-2 * D))),
        "D": D,
    }
    local_ball = {
        "eta_1": instance.lam**2,
        "eta_2": instance.calmness_of_d2E(D - r_0, D + r_0),
        "g_star": abs(problem.d1E(problem.w_star)),
        "W": problem.W,
        "r_0": r_0,
    }
    for steps in range(25):
        error = problem.itd_error(steps)
        local = exact("itd-local", steps, **phi, **local_ball)
        assert error <= local <= exact("itd", steps, **phi, **paper_ball)
        assert problem.fp_error(steps, steps) <= exact("aid-fp-local", steps, steps, **phi, **local_ball)
    too_small = local_ball | {"eta_2": local_ball["eta_2"] / 2}
    assert problem.itd_error(0) > exact("itd-local", 0, **phi, **too_small)


def heavy_ball_polynomial(h: Q, alpha: Q, beta: Q, t: int) -> Q:
    """P_t(h), where w_t−w* = P_t(H)(w_0−w*) and w_{−1} = w_0."""
    previous, current = Q(1), Q(1)
    for _ in range(t):
        previous, current = current, current + beta * (current - previous) - alpha * h * current
    return current


def test_erratum_03_heavy_ball_grows_before_it_shrinks() -> None:
    """Spectrum [1, 9], so that s = ½ and α = β = ¼: every number here is dyadic and exact in floats as well."""
    method, alpha, beta = heavy_ball(1, 9), Q(1, 4), Q(1, 4)
    assert (method.alpha, method.beta, method.rate) == (alpha, beta, HALF)
    grid = [1 + Q(8 * i, 64) for i in range(65)]
    for steps in range(13):
        factor = Q(float(method.factor(steps)))
        assert factor == HALF**steps * (1 + Q(3, 2) * steps)
        assert factor == abs(heavy_ball_polynomial(Q(9), alpha, beta, steps))
        assert factor == max(abs(heavy_ball_polynomial(h, alpha, beta, steps)) for h in grid)
    assert method.factor(1) > 1  # Assumption 3(ii) fails


@pytest.mark.parametrize("sqrt_kappa", [10, 100, 1000])
def test_erratum_03_peak_is_about_sqrt_kappa_over_e(sqrt_kappa: int) -> None:
    peak = heavy_ball(1, sqrt_kappa**2).factor(np.arange(3 * sqrt_kappa)).max()
    assert abs(peak * math.e / sqrt_kappa - 1) < 1 / sqrt_kappa**2


def test_erratum_03_aid_fp_is_violated_when_rho_exceeds_one() -> None:
    alpha, D, k = Q(9, 10), Q(1), 50
    problem = quadratic(alpha, d1E=lambda w: w)  # E = ½w²
    step, momentum = Q(4) / Q(101, 100) ** 2, Q(99, 101) ** 2  # heavy ball tuned to [10⁻⁴, 1]; the Hessian is 1

    def error_and_rho(t: int) -> tuple[Q, Q]:
        w = problem.w_star * (1 - heavy_ball_polynomial(Q(1), step, momentum, t))
        return problem.aid_error(w, problem.fixed_point(w, k)), abs(w - problem.w_star)

    peak = max(range(100), key=lambda t: error_and_rho(t)[1])
    error, rho = error_and_rho(peak)
    phi = {"q": 1 - alpha, "nu_1": 0, "nu_2": alpha}
    outer = {"eta_1": 1, "eta_2": 0}

    def theorem(radius: Q) -> Q:
        return exact("aid-fp", peak, k, **phi, **outer, D=D, rho=rho, L_E=radius, L_Phi=alpha * radius)

    assert peak == 49
    assert Q("9.69") < error / theorem(2 * D) < Q("9.70")
    assert error <= theorem(D + rho * D)  # the constants on B(w*, ρ r_0)
    with pytest.raises(AssumptionError, match=r"aid-fp: rho = 36\.\d+ > 1.*Assumption 3\(ii\) fails.*aid-fp-local"):
        bounds["aid-fp"].evaluate({**phi, **outer, "D": D, "L_E": 2, "L_Phi": 2 * alpha}, peak, k, rho=float(rho))
    for steps in range(0, 120, 3):
        error, rho = error_and_rho(steps)
        local = {"W": problem.W, "g_star": 1, "r_0": D, "rho": rho}
        assert error <= exact("aid-fp-local", steps, k, **phi, **outer, **local)


def test_erratum_04_q_zero_and_t_zero_are_legal_for_itd() -> None:
    c_1, c_2, c_3, q, t = (getattr(symbols, name) for name in ("c_1", "c_2", "c_3", "q", "t"))
    n = sp.Symbol("n", integer=True, nonnegative=True)
    printed = (c_1 + c_2 * t / q + c_3) * q**t
    assert sp.simplify((printed - bounds["itd"].in_coefficients).subs(t, n + 1)) == 0  # the same for t ≥ 1 and q > 0 …
    assert printed.subs(t, 1).subs(q, 0) is sp.nan  # … but not at the q that the paper's own step size gives for κ = 1
    assert gradient_descent(1, 1).q == 0

    problem = quadratic(alpha=Q(1))
    constants = {"q": 0, "nu_1": 0, "nu_2": 1, "eta_1": 0, "eta_2": 0, "D": 1, "L_E": 1, "L_Phi": 2}
    errors = [problem.itd_error(steps) for steps in range(5)]
    values = bounds["itd"].evaluate(constants, t=range(5)).values
    assert errors == [1, 1, 0, 0, 0]
    assert values.tolist() == [2, 1, 0, 0, 0]  # c₁ + c₃, then c₂ (attained), then nothing
    assert all(error <= value for error, value in zip(errors, values, strict=True))


def test_erratum_04_aid_needs_a_zero_start_of_the_linear_solver() -> None:
    problem = quadratic(alpha=HALF)
    constants = {"q": HALF, "nu_1": 0, "nu_2": HALF, "eta_1": 0, "eta_2": 0, "D": 1, "L_E": 1, "L_Phi": 1}
    for steps in range(8):
        w = problem.iterate(steps)
        v_t, v_0 = problem.solve(w), Q(-98)
        for k in range(8):
            from_zero = exact("aid-contraction", steps, k, **constants, sigma=HALF**k)  # σ(k) = q^k, σ(0) = 1
            assert problem.fp_error(steps, k) <= from_zero
            if steps == 0:
                continue  # ∂₂Φ(w_0) = 0 here, so v does not matter
            error = problem.aid_error(w, problem.fixed_point(w, k, v_0))
            assert error > from_zero
            sigma = HALF**k * abs(v_0 - v_t) / abs(v_t)
            assert error <= exact("aid-contraction", steps, k, **constants, sigma=sigma)


def test_erratum_05_any_start_with_r_0_for_D() -> None:
    q, start = HALF, Q(11)
    problem = affine(q, b=HALF)
    D = abs(problem.w_star)
    r_0 = abs(start - problem.w_star)
    for steps in range(1, 25):
        error = problem.itd_error(steps, start)
        paper = exact("itd", steps, q=q, **AFFINE, D=D, L_Phi=2 * D)
        recentred = exact("itd", steps, q=q, **AFFINE, D=r_0, L_Phi=D + r_0)
        local = exact("itd-local", steps, q=q, nu_1=0, nu_2=1, eta_1=0, eta_2=0, g_star=1, W=problem.W, r_0=r_0)
        assert paper < error <= local <= recentred


def test_erratum_05_a_start_that_depends_on_lambda() -> None:
    """w_0(λ) = −20λ is 0 at λ = 0, but its derivative is not."""
    dw_0 = Q(-20)
    problem = affine(HALF, b=HALF)
    # with ν₁ = η₁ = 0 the W of itd-local stands in the q^t term alone, so that W=… below changes just that
    expression = bounds["itd-local"].expression.subs({symbols.nu_1: 0, symbols.eta_1: 0})
    assert sp.simplify(expression.diff(symbols.W) - symbols.g_star * symbols.q**symbols.t) == 0

    constants = {"q": HALF, "nu_1": 0, "nu_2": 1, "eta_1": 0, "eta_2": 0, "g_star": 1, "r_0": problem.w_star}
    for steps in range(25):
        error = problem.itd_error(steps, dw=dw_0)
        assert error > exact("itd", steps, q=HALF, **AFFINE, D=problem.w_star, L_Phi=2 * problem.w_star)
        assert error > exact("itd-local", steps, **constants, W=problem.W)
        assert error == exact("itd-local", steps, **constants, W=abs(dw_0 - problem.w_prime))
        assert problem.itd_error(steps) == exact("itd-local", steps, **constants, W=problem.W)


def test_erratum_06_a_detached_step_size_is_a_frozen_one() -> None:
    """ℓ = ½λw² − w with α(λ) = ½λ⁻¹⁰ at λ = 1, so α = ½ and α' = −5; ∂₂Φ with and without the term in α'."""
    lam = sp.Symbol("lam")
    alpha, slope = HALF, Q(-5)
    detached = quadratic(alpha)
    differentiated = Problem(Q(1), detached.phi, detached.d1phi, lambda w: -alpha * w - slope * (w - 1))
    gd = {"alpha": alpha, "mu": 1, "L": 1, "L_ell": 1, "hat_rho_1": 0, "hat_rho_2": 1}
    outer = {"eta_1": 0, "eta_2": 0, "L_E": 1, "D": 1}

    w_frozen, w_moving = sp.Integer(0), sp.Integer(0)
    for steps in range(1, 5):
        w_frozen = w_frozen - (lam * w_frozen - 1) / 2
        w_moving = w_moving - lam**-10 * (lam * w_moving - 1) / 2
        assert w_frozen.diff(lam).subs(lam, 1) == detached.derivative(steps)
        assert w_moving.diff(lam).subs(lam, 1) == differentiated.derivative(steps)
        assert detached.derivative(steps) != differentiated.derivative(steps)  # so it is not ∇f_t of Algorithm 1
        frozen_bound = exact("itd-gd", steps, **gd, **outer)
        assert detached.itd_error(steps) <= frozen_bound < differentiated.itd_error(steps)
        assert differentiated.itd_error(steps) <= exact("itd-gd", steps, **gd, **outer, grad_alpha=abs(slope))
        assert detached.fp_error(steps, steps) <= exact("aid-fp-gd", steps, steps, **gd, **outer)

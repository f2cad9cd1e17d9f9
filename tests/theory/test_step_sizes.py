"""Step sizes and contraction constants against linear algebra done directly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_lyapunov

import boundcheck as bc
from boundcheck.theory.step_sizes import (
    Lyapunov,
    Momentum,
    from_constants,
    gradient_descent,
    heavy_ball,
    lyapunov,
    lyapunov_for,
    nesterov,
)

MU, L = 0.1, 10.0
METHODS = [heavy_ball(MU, L), nesterov(MU, L), heavy_ball(1.0, 1e4), nesterov(1.0, 1e4), heavy_ball(2.0, 2.0)]
ids = [f"{m.name}-{m.kappa:g}" for m in METHODS]


def residual(method: Momentum, h: float, t: int) -> float:
    """P_t(h): what t steps leave of w_0 − w*, from w_{−1} = w_0."""
    return float((np.linalg.matrix_power(method.matrix(h), t) @ np.ones(2))[0])


@given(mu=st.floats(1e-3, 1), ratio=st.floats(1, 1e6), share=st.floats(0.01, 3))
@settings(max_examples=200)
def test_gradient_descent_contracts_as_its_spectrum_says(mu: float, ratio: float, share: float) -> None:
    smooth = mu * ratio
    result = gradient_descent(mu, smooth, share / smooth)
    spectrum = np.linspace(mu, smooth, 101)
    assert result.q == pytest.approx(np.abs(1 - result.alpha * spectrum).max(), rel=1e-12, abs=1e-12)
    assert result.contracts == (result.q < 1)
    assert result.alpha <= result.largest_alpha or not result.contracts  # equal where αL−1 rounds below 1


def test_the_best_step_size() -> None:
    best = gradient_descent(MU, L)
    assert best.alpha == pytest.approx(2 / (MU + L))
    assert best.q == pytest.approx((best.kappa - 1) / (best.kappa + 1))
    assert all(gradient_descent(MU, L, best.alpha * x).q > best.q for x in (0.5, 0.99, 1.005))


@pytest.mark.parametrize("method", METHODS, ids=ids)
@pytest.mark.parametrize("t", [0, 1, 2, 5, 30])
def test_factor_is_the_worst_over_the_spectrum(method: Momentum, t: int) -> None:
    """Never exceeded on a fine grid of [μ, L], and attained at one of its ends."""
    ends = [method.mu, method.mu * method.kappa]
    grid = np.linspace(*ends, 4001)
    worst = max(abs(residual(method, h, t)) for h in grid)
    assert worst <= method.factor(t) * (1 + 1e-9) + 1e-15  # at κ = 1 nothing but rounding is left
    assert max(abs(residual(method, h, t)) for h in ends) == pytest.approx(float(method.factor(t)), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("method", METHODS[:4], ids=ids[:4])
@pytest.mark.parametrize("t", [1, 2, 5, 12])
def test_slope_is_the_worst_derivative(method: Momentum, t: int) -> None:
    """|P_t'| at the worse end equals the slope; as a polynomial, so with no difference quotient."""
    h = np.polynomial.Polynomial([0.0, 1.0])
    x, b = 1 - method.alpha * h, method.beta
    before, now = np.polynomial.Polynomial([1.0]), np.polynomial.Polynomial([1.0])
    for _ in range(t):
        after = (x + b) * now - b * before if method.name == "heavy-ball" else x * ((1 + b) * now - b * before)
        before, now = now, after
    ends = np.array([method.mu, method.mu * method.kappa])
    assert np.abs(now.deriv()(ends)).max() == pytest.approx(float(method.slope(t)), rel=1e-7)
    assert (np.abs(now.deriv()(np.linspace(*ends, 501))) <= method.slope(t) * (1 + 1e-7)).all()


def test_heavy_ball_first_gets_worse_by_root_kappa_over_e() -> None:
    method = heavy_ball(1.0, 1e4)
    peak = method.factor(np.arange(400)).max()
    assert peak == pytest.approx(np.sqrt(1e4) / np.e, rel=0.02)


@pytest.mark.parametrize("method", METHODS, ids=ids)
@pytest.mark.parametrize("t", [1, 10, 100])
def test_lyapunov_norm_bounds_every_power(method: Momentum, t: int) -> None:
    norm = lyapunov(method, t=t)
    for h in np.linspace(method.mu, method.mu * method.kappa, 23):
        power = np.linalg.norm(np.linalg.matrix_power(method.matrix(h), t), 2)
        assert power <= norm.factor(t) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("method", METHODS[:4], ids=ids[:4])
@pytest.mark.parametrize("theta", [0.3, 0.9])
def test_the_norm_at_mu_is_the_most_stretched(method: Momentum, theta: float) -> None:
    norm = lyapunov(method, theta=theta)
    solved = solve_discrete_lyapunov((method.matrix(method.mu) / norm.q_P).T, np.eye(2))
    np.testing.assert_allclose(norm.P, solved, rtol=1e-5)  # the solver loses digits, the closed form does not
    for h in np.linspace(method.mu, method.mu * method.kappa, 57):
        M = method.matrix(h) / norm.q_P
        P = solve_discrete_lyapunov(M.T, np.eye(2))
        eigenvalues = np.linalg.eigvalsh(P)
        assert eigenvalues[0] >= 1 - 1e-5
        assert eigenvalues[-1] <= norm.stretch * (1 + 1e-5)
        root = np.linalg.cholesky(P).T
        assert np.linalg.norm(root @ M @ np.linalg.inv(root), 2) < 1


@pytest.mark.parametrize("t", [1, 20, 200])
def test_theta_is_the_best_for_its_t(t: int) -> None:
    method = heavy_ball(MU, L)
    best = lyapunov(method, t=t)
    others = [lyapunov(method, theta=theta).factor(t) for theta in np.geomspace(1e-4, 0.999, 60)]
    assert best.factor(t) <= min(others) * (1 + 1e-6)


def test_weighted_constants_need_their_ingredients_and_keep_their_side() -> None:
    norm = lyapunov(heavy_ball(MU, L), t=10)
    given_ = {"r_0": 1.0, "L_E": 1.0, "L_ell": 1.0, "eta_1": 1.0, "eta_2": 0.0, "hat_rho_2": 0.5}
    made = norm.constants(bc.Constants.given(**given_, side="upper"))
    assert made["q_P"].value == norm.q_P
    assert {n for n, c in made.items() if c.side is bc.Side.EXACT} == {"q_P", "nu_1_P"}
    assert bc.bounds["itd-weighted"].evaluate(made, t=10).side is bc.Side.UPPER
    with pytest.raises(bc.MissingConstantError, match="need hat_rho_2"):
        norm.constants(bc.Constants.given(**{n: v for n, v in given_.items() if n != "hat_rho_2"}))


@pytest.mark.parametrize("method", METHODS[:2], ids=ids[:2])
def test_weighted_constants_bound_what_they_stand_for(method: Momentum) -> None:
    """For random vectors in the P(μ)-norm, and with the factors that docs/proofs.md derives."""
    norm = lyapunov(method, t=30)
    made = norm.constants(bc.Constants.given(r_0=2.0, L_E=3.0, L_ell=5.0, eta_1=7.0, eta_2=11.0, hat_rho_2=13.0))
    root = np.linalg.cholesky(norm.P).T  # ‖z‖_P = ‖root z‖
    top = np.linalg.norm(root, 2)
    rng = np.random.default_rng(0)
    for z in rng.normal(size=(200, 2)):
        assert np.linalg.norm(root @ z) >= np.linalg.norm(z) * (1 - 1e-6)  # so L_E, η₁ and η₂ need no factor
        seen = z[0] if method.name == "heavy-ball" else (1 + method.beta) * z[0] - method.beta * z[1]
        change = method.alpha * 13.0 * abs(seen) * top
        assert change <= made["nu_2_P"].value * np.linalg.norm(root @ z) * (1 + 1e-6)
    assert made["D_P"].value == pytest.approx(top * np.linalg.norm([2.0, 2.0]))
    assert made["L_Phi_P"].value == pytest.approx(top * method.alpha * 5.0)
    assert [made[n].value for n in ("L_E_P", "eta_1_P", "eta_2_P", "nu_1_P")] == [3.0, 7.0, 11.0, 0.0]


def test_failure_probabilities_are_counted_once() -> None:
    how = bc.Provenance("Lanczos", delta=0.01)
    names = ("r_0", "L_E", "L_ell", "eta_1", "eta_2", "hat_rho_2")
    likely = bc.Constants({n: bc.Constant(n, 1.0, bc.Side.HIGH_PROBABILITY, how) for n in names})
    norm = lyapunov(heavy_ball(MU, L), t=10)
    assert bc.bounds["itd-weighted"].evaluate(norm.constants(likely), t=10).delta == pytest.approx(0.06)


@pytest.mark.parametrize("name", ["itd-weighted", "aid-fp-weighted"])
@pytest.mark.parametrize("t", [5, 50, 500])
def test_theta_for_a_bound_is_the_best_for_it(name: str, t: int) -> None:
    given_ = bc.Constants.given(r_0=1.0, L_E=1.0, L_ell=1.0, eta_1=1.0, eta_2=0.0, hat_rho_2=0.5)
    method, bound = heavy_ball(MU, L), bc.bounds[name]

    def value(norm: Lyapunov) -> float:
        return float(bound.evaluate(norm.constants(given_), t).values)

    best = value(lyapunov_for(bound, method, given_, t))
    assert best <= min(value(lyapunov(method, theta=x)) for x in np.geomspace(1e-3, 0.999, 60)) * (1 + 1e-6)
    assert best <= value(lyapunov(method, t=t)) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradient_descent(0.0, 1.0), "mu = 0 ≤ 0"),
        (lambda: gradient_descent(2.0, 1.0), "mu = 2 > L = 1"),
        (lambda: gradient_descent(1.0, float("nan")), "L = nan is not finite"),
        (lambda: gradient_descent(1.0, 2.0, -0.1), "alpha = -0.1 ≤ 0"),
        (lambda: lyapunov(heavy_ball(MU, L)), "give exactly one"),
        (lambda: lyapunov(heavy_ball(MU, L), theta=1.0), r"theta = 1.0 is outside \(0, 1\)"),
        (lambda: lyapunov(heavy_ball(MU, L), t=-3), "t = -3 < 0"),
        (lambda: lyapunov(heavy_ball(MU, L), t=1.5), "t = 1.5 is not a whole number"),
        (lambda: lyapunov(heavy_ball(MU, L), theta=1e-300), "theta = 1e-300 is outside"),
        (lambda: lyapunov(heavy_ball(MU, L), theta="a"), "theta = 'a' is not a number"),
        (lambda: heavy_ball(MU, L).factor(-3), "t = -3 < 0"),
        (lambda: heavy_ball(MU, L).factor(float("nan")), "t = nan is not a whole number"),
        (lambda: heavy_ball("a", L), "mu = 'a' is not a number"),
        (lambda: heavy_ball(5e-324, 1.0), "out of range"),
        (lambda: nesterov(1e308, 1e308), "out of range"),
    ],
)
def test_bad_input(call, message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message):
        call()


# --- from the constants of a problem ---------------------------------------------------------------------------------


def test_step_sizes_from_constants() -> None:
    sizes = from_constants(bc.Constants.given(mu=MU, L=L))
    assert sizes is not None
    assert (sizes.best, sizes.heavy_ball, sizes.nesterov) == (
        gradient_descent(MU, L), heavy_ball(MU, L), nesterov(MU, L)
    )  # fmt: skip
    assert sizes.own is None
    assert list(sizes.as_json()) == ["proved", "gradient-descent", "heavy-ball", "nesterov"]
    assert sizes.as_json()["gradient-descent"]["q"] == sizes.best.q


@pytest.mark.parametrize(
    "constants", [{}, {"mu": 1.0}, {"mu": 0.0, "L": 1.0}, {"mu": 2.0, "L": 1.0}, {"mu": 1e-20, "L": 1.0}]
)
def test_no_step_sizes_without_a_spectrum(constants: dict[str, float]) -> None:
    assert from_constants(bc.Constants.given(**constants)) is None


@pytest.mark.parametrize(
    ("mu", "smooth", "proved"),
    [("exact", "exact", True), ("lower", "upper", True), ("upper", "exact", False), ("exact", "lower", False)],
)
def test_step_sizes_are_proved_where_mu_is_from_below_and_L_from_above(mu: str, smooth: str, proved: bool) -> None:
    sizes = from_constants(bc.Constants.given(mu=MU, L=L, sides={"mu": mu, "L": smooth}))
    assert sizes is not None
    assert sizes.proved is proved


@pytest.mark.parametrize(
    ("alpha", "q", "side", "contracts"),
    [(0.1, 0.99, "exact", True), (0.3, 2.0, "exact", False), (0.1, 1.5, "exact", False), (0.1, 1.5, "upper", True)],
)
def test_the_step_of_the_problem(alpha: float, q: float, side: str, contracts: bool) -> None:
    """A q ≥ 1 that is known to be attained refutes what μ and L at w* say."""
    sizes = from_constants(bc.Constants.given(mu=MU, L=L, alpha=alpha, q=q, sides={"q": side}))
    assert sizes is not None
    assert sizes.own is not None
    assert sizes.own.contracts is contracts
    assert sizes.own.q == gradient_descent(MU, L, alpha).q
    assert sizes.as_json()["own"] == {"alpha": alpha, "q": sizes.own.q, "contracts": contracts}

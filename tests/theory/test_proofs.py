"""The proofs as tests: recursions solved symbolically, special cases as identities, orderings as signs."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import constants_for

import boundcheck as bc
from boundcheck.theory.bounds import aid, aid_fp_local, itd_gd, itd_local
from boundcheck.theory.coefficients import COEFFICIENTS, GRADIENT_DESCENT, W_PAPER
from boundcheck.theory.lemmas import sequence_constant, sequence_shrinking
from boundcheck.theory.rates import CG, CGN, FIXED_POINT, INVERSE_CHEBYSHEV, S_NORMAL, S
from boundcheck.theory.symbols import (
    L_E,
    D,
    K,
    L,
    L_ell,
    L_Phi,
    W,
    alpha,
    c_1,
    c_2,
    c_3,
    eta_1,
    eta_2,
    gap,
    grad_alpha,
    hat_rho_1,
    hat_rho_2,
    k,
    kappa,
    mu_inv,
    nu_1,
    nu_2,
    q,
    r_0,
    r_t,
    rho,
    sigma,
    t,
)

n = sp.Symbol("n", integer=True, positive=True)
u = sp.Function("u")
u_0, tau = sp.symbols("u_0 tau", positive=True)


def at_least_one(expression: sp.Expr) -> sp.Expr:
    """The expression for t, k ≥ 1, where max(t−1, 0) is t−1."""
    positive = {x: sp.Symbol(x.name, integer=True, positive=True) for x in (t, k, K)}
    return expression.subs(positive).doit()


x = sp.Symbol("q", positive=True)  # q = 0 apart, where rsolve has nothing to solve


def test_lemma_sequence_i() -> None:
    """u_n = q u_{n−1} + τ, solved by sympy, is the lemma."""
    solved = sp.rsolve(u(n + 1) - x * u(n) - tau, u(n), {u(0): u_0})
    assert sp.simplify(solved - sequence_constant(n, u_0, tau).doit().subs(q, x)) == 0


def test_lemma_sequence_ii() -> None:
    """u_n = q u_{n−1} + q^{n−1}τ_0, solved by sympy, is the lemma."""
    solved = sp.rsolve(u(n + 1) - x * u(n) - x**n * tau, u(n), {u(0): u_0})
    assert sp.simplify(solved - sequence_shrinking(n, u_0, tau).subs(q, x)) == 0


def test_itd_derivative_is_lemma_ii() -> None:
    """Proposition 2.1 as printed is the lemma with u_0 = L_Φ/(1−q) and τ_0 = (ν₂ + ν₁L_Φ/(1−q))D."""
    printed = (nu_2 + nu_1 * L_Phi / (1 - q)) * D * n * q ** (n - 1) + L_Phi / (1 - q) * q**n
    assert sp.simplify(bc.bounds["itd-derivative"].expression.subs(t, n) - printed) == 0
    assert sp.simplify(sequence_shrinking(n, W_PAPER, (nu_2 + nu_1 * W_PAPER) * D) - printed) == 0


def test_aid_fp_derivative_is_lemma_i() -> None:
    """Proposition A.2 as printed is the lemma with u_0 = L_Φ/(1−q) and τ = (ν₂ + ν₁L_Φ/(1−q))Dρ(t)."""
    printed = (nu_2 + nu_1 * L_Phi / (1 - q)) * D * (1 - q**k) / (1 - q) * rho + L_Phi / (1 - q) * q**k
    assert sp.simplify(bc.bounds["aid-fp-derivative"].expression - printed) == 0
    assert sp.simplify(sequence_constant(k, W_PAPER, (nu_2 + nu_1 * W_PAPER) * D * rho).doit() - printed) == 0


@pytest.mark.parametrize(
    ("derivative", "index", "distance"), [(itd_local.DERIVATIVE, t, q**n * r_0), (aid_fp_local.DERIVATIVE, k, r_t)]
)
def test_first_step_has_no_nu_1(derivative: sp.Expr, index: sp.Symbol, distance: sp.Expr) -> None:
    """Δ'_0 = W, Δ'_1 = qW + ν₂r_0, and from then on Δ' → qΔ' + (ν₂ + ν₁W)r: the closed forms of the local bounds."""
    assert derivative.subs(index, 0).doit() == W
    start = q * W + nu_2 * distance.subs(n, 0)
    assert sp.simplify(derivative.subs(index, 1).doit() - start) == 0
    step = derivative.subs(index, n + 1) - (q * derivative.subs(index, n) + (nu_2 + nu_1 * W) * distance)
    assert sp.simplify(step.doit().subs(q, sp.Symbol("q", positive=True)).expand()) == 0


def test_general_aid_at_one_minus_q_is_the_contraction_form() -> None:
    assert sp.simplify(bc.bounds["aid"].expression.subs(mu_inv, 1 - q) - bc.bounds["aid-contraction"].expression) == 0


def test_aid_fp_is_below_aid_with_the_fixed_point_rate() -> None:
    """The difference is c₂ρq^k/(1−q)."""
    general = bc.bounds["aid-contraction"].in_coefficients.subs(sigma, FIXED_POINT.expression)
    difference = sp.factor(sp.simplify(general - bc.bounds["aid-fp"].in_coefficients))
    assert sp.simplify(difference - c_2 * rho * q**k / (1 - q)) == 0


def test_aid_fp_is_below_itd_at_k_equal_t() -> None:
    """The difference is c₂ q^{t−1} (t − Σ_{i=1}^t q^i), and the bracket is (1−q) Σ_{j<t} (t−j) q^j."""
    itd, fp = (at_least_one(bc.bounds[name].in_coefficients) for name in ("itd", "aid-fp"))
    m = sp.Symbol("t", integer=True, positive=True)
    fp = fp.subs({rho: q**m, sp.Symbol("k", integer=True, positive=True): m})
    bracket = m - q * (1 - q**m) / (1 - q)
    assert sp.simplify(itd - fp - c_2 * q ** (m - 1) * bracket) == 0
    # the sum by induction on t: at t = 1, and what each further term adds
    closed = bracket / (1 - q)
    assert sp.simplify(closed.subs(m, 1) - 1) == 0
    added = (1 - q ** (m + 1)) / (1 - q)  # Σ_{j≤t} q^j, all of it non-negative
    assert sp.simplify(closed.subs(m, m + 1) - closed - added) == 0


def test_truncated_at_t_is_itd() -> None:
    difference = bc.bounds["itd-truncated"].in_coefficients.subs(K, t) - bc.bounds["itd"].in_coefficients
    assert sp.simplify(at_least_one(difference)) == 0


def test_one_step_is_truncated_at_one() -> None:
    assert bc.bounds["itd-one-step"].expression == bc.bounds["itd-truncated"].expression.subs(K, 1)


def test_cgn_at_the_largest_condition_number() -> None:
    """κ = (1+q)/(1−q) turns its rate into q: the linear-solve term is 2c₃q^k."""
    assert sp.simplify(S_NORMAL.subs(kappa, (1 + q) / (1 - q)) - q) == 0
    assert sp.simplify(CGN.expression - 2 * kappa * ((kappa - 1) / (kappa + 1)) ** k) == 0


def test_cg_rate_is_as_printed_and_ordered() -> None:
    """`eq:conjrate`, and `eq:20200106d`: (√κ−1)/(√κ+1) ≤ (κ−1)/(κ+1), the difference having one sign."""
    root = sp.sqrt(kappa)
    assert sp.simplify(CG.expression - 2 * root * ((root - 1) / (root + 1)) ** k) == 0
    x = sp.Symbol("x", positive=True)  # √κ = 1 + x
    difference = sp.factor(sp.simplify((S_NORMAL - S).subs(kappa, (1 + x) ** 2)))
    numerator, denominator = sp.fraction(difference)
    assert all(c >= 0 for c in sp.Poly(numerator, x).coeffs() + sp.Poly(denominator, x).coeffs())


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 7])
def test_chebyshev_form(degree: int) -> None:
    """2s^k/(1+s^{2k}) = 1/T_k((κ+1)/(κ−1))."""
    x = sp.Symbol("x", positive=True)
    ours = INVERSE_CHEBYSHEV.subs(k, degree).subs(kappa, (1 + x) ** 2)
    theirs = 1 / sp.chebyshevt(degree, ((1 + x) ** 2 + 1) / ((1 + x) ** 2 - 1))
    assert sp.simplify(ours - theirs) == 0


def test_gradient_descent_coefficients_are_those_of_appendix_b() -> None:
    printed = {
        c_1: (eta_2 + eta_1 * alpha * L_ell / (1 - q)) * D,
        c_2: (L * grad_alpha + alpha * hat_rho_2) * L_E * D + hat_rho_1 * alpha**2 * L_ell * L_E * D / (1 - q),
        c_3: L_E * alpha * L_ell / (1 - q),
    }
    for symbol, value in printed.items():
        assert sp.simplify(itd_gd.WHERE[symbol].subs(gap, 1 - q) - value) == 0
    as_max = GRADIENT_DESCENT[gap].replace(sp.Min, lambda *args: 1 - sp.Max(*(1 - arg for arg in args)))
    assert sp.simplify(1 - GRADIENT_DESCENT[q] - as_max) == 0


def test_coefficients_are_those_of_theorem_2_1() -> None:
    assert sp.simplify(COEFFICIENTS[c_1] - (eta_2 + eta_1 * L_Phi / (1 - q)) * D) == 0
    assert sp.simplify(COEFFICIENTS[c_2] - (nu_2 + nu_1 * L_Phi / (1 - q)) * L_E * D) == 0
    assert sp.simplify(COEFFICIENTS[c_3] - L_E * L_Phi / (1 - q)) == 0
    assert sp.simplify(aid.UPPER.subs(mu_inv, 1 - q) - COEFFICIENTS[c_3]) == 0


UNIT = st.floats(0.01, 1)


@st.composite
def related(draw: st.DrawFn) -> dict[str, float]:
    """Local and ball constants as on one problem: r_0 ≤ D, L_Φ* + ν₂r_0 ≤ L_Φ, W ≤ L_Φ*/(1−q), g* + η₁r_0 ≤ L_E."""
    c = draw(constants_for(bc.bounds["itd"]))
    c["r_0"] = c["D"] * draw(UNIT)
    c["L_Phi_star"] = c["L_Phi"]
    c["L_Phi"] += c["nu_2"] * c["r_0"]
    c["W"] = c["L_Phi_star"] / (1 - c["q"]) * draw(UNIT)
    c["g_star"] = c["L_E"]
    c["L_E"] += c["eta_1"] * c["r_0"]
    c["q_star"] = c["q"] * draw(UNIT)
    c["kappa"] = (1 + c["q"]) / (1 - c["q"])
    return c


BELOW = [
    ("itd-local", "itd"),
    ("itd-recursive", "itd-local"),
    ("itd-shrinking", "itd-recursive"),
    ("aid-fp-shrinking", "aid-fp-local"),
    ("aid-cg-shrinking", "aid-cg-local"),
    ("aid-fp-local", "aid-fp"),
    ("aid-local", "aid-contraction"),
    ("aid-fp", "itd"),
    ("aid-fp", "aid-contraction"),
    ("ghadimi-wang", "aid-contraction"),
    ("aid-cg-energy", "aid-cg"),
    ("aid-cg-chebyshev", "aid-cg"),
    ("aid-cg-energy", "aid-cg-chebyshev"),
    ("itd-quadratic", "itd"),
]


def evaluate(bound: bc.Bound, c: dict[str, float], t: np.ndarray) -> np.ndarray:
    """With fixed-point steps where the linear solver is left open."""
    return bound.evaluate(c, t, **({"sigma": "fixed-point"} if "sigma" in bound.symbols else {})).values


@pytest.mark.parametrize(("sharper", "looser"), BELOW)
@given(c=related())
@settings(max_examples=60)
def test_is_below(sharper: str, looser: str, c: dict[str, float]) -> None:
    grid = np.array([1, 2, 3, 10, 57, 300])
    small, large = (evaluate(bc.bounds[name], c, grid) for name in (sharper, looser))
    assert (small <= large * (1 + 1e-12) + 1e-300).all()  # (50 + 16t)u of rounding in each, of normal numbers


@given(data=st.data())
@settings(max_examples=60)
def test_ji_is_above_itd(data: st.DataObject) -> None:
    """In the constants it implies: q = 1−αμ, W = L/μ, η₁ = η₂ = L, ν₁ = αρ̂₁, ν₂ = αρ̂₂, ‖∇₁E‖ ≤ L_E."""
    c = data.draw(constants_for(bc.bounds["ji-itd"]))
    a, mu, L = c["alpha"], c["mu"], c["L"]
    itd_constants = {"q": 1 - a * mu, "eta_1": L, "eta_2": L, "nu_1": a * c["hat_rho_1"], "nu_2": a * c["hat_rho_2"]}
    itd_constants |= {"D": c["r_0"], "L_E": c["L_E"], "L_Phi": a * L}
    grid = np.array([1, 2, 5, 20, 100, 1000])
    ours, theirs = bc.bounds["itd"].evaluate(itd_constants, grid).values, bc.bounds["ji-itd"].evaluate(c, grid).values
    loss = 1 + 1e-12 / (a * mu)  # 1−q is computed from 1−αμ here
    assert (ours <= theirs * loss).all()

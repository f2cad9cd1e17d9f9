"""Errata 11 to 13, on the paper of 2021: what its statements ask or give away beyond need, in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction as Q

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import HALF, exact

DRAWS = (HALF, Q(3, 2))


def variance(values: tuple[Q, ...]) -> Q:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


@pytest.mark.parametrize("claimed", [1, 10**3, 10**9])
def test_erratum_11_no_m_2_for_every_w(claimed: int) -> None:
    """ℓ̂ = ½λζw² − w at λ = 1 with α = ½, and E = ½w²; v(w) = ∇₁E/(1−∂₁Φ) = 2w."""
    w = Q(4 * claimed + 1)
    assert variance(tuple(-HALF * zeta * w for zeta in DRAWS)) == w**2 / 16 > claimed
    assert (w / (1 - HALF)) ** 2 > claimed


def test_erratum_11_a_ball_that_draws_do_not_leave() -> None:
    """|w−1| ≤ 2 is mapped into itself, at its ends and so, as the maps are affine, everywhere; m₂ = 9/16 there."""
    for zeta in DRAWS:
        for w in (Q(-1), Q(3)):
            assert -1 <= w - HALF * (zeta * w - 1) <= 3
    assert max(variance(tuple(-HALF * zeta * w for zeta in DRAWS)) for w in (Q(-1), Q(3))) == Q(9, 16)


ZERO = dict.fromkeys(("nu_1", "nu_2", "eta_1", "eta_2", "L_Phi_star", "L_E", "m_2", "W"), 0)


def test_erratum_12_the_bias_is_counted_twice() -> None:
    """Φ = w/2 and E = ½w² + λw: ∇̂f−∇f = w_t = 2^{−t}. At w* with ∂₂Φ̂ = ±1 and E = w: it is ±v = ±2."""
    for t in range(6):
        true = Q(1, 4) ** t
        constants = ZERO | {"q": HALF, "eta_2": 1, "eta_1": 1, "mse_w": true, "mse_v": 0}
        assert exact("sid-orthogonal", **constants) == true
        assert exact("sid-mse", **constants) == 6 * true
    limit = ZERO | {"q": HALF, "L_E": 1, "m_2": 1, "mse_w": 0, "mse_v": 0}
    assert exact("sid-orthogonal", **limit) == 4
    assert exact("sid-mse", **limit) == 8


RATIONAL = st.fractions(0, 10, max_denominator=20)


@given(
    st.fixed_dictionaries(dict.fromkeys(("nu_1", "nu_2", "eta_1", "eta_2", "L_Phi_star", "L_E", "m_2"), RATIONAL)),
    RATIONAL,
    RATIONAL,
)
def test_erratum_12_smaller_coefficients_are_enough(constants: dict[str, Q], root_rho: Q, root_sigma: Q) -> None:
    """3c₁², 3L_Φ² and 3ν₂² are above the orthogonal bound; 5 in place of 3 for the last two is the paper's proof."""
    q, rho, sigma = HALF, root_rho**2, root_sigma**2
    nu_2, L, V, m_2 = (*(constants[x] for x in ("nu_2", "L_Phi_star")), constants["L_E"] / (1 - q), constants["m_2"])
    c_1 = constants["eta_2"] + (constants["eta_1"] + constants["nu_1"] * V) * L / (1 - q) + nu_2 * V
    ours = (c_1 * root_rho + L * root_sigma + nu_2 * root_rho * root_sigma) ** 2 + m_2 * (V + root_sigma) ** 2
    both, apart = (
        2 * m_2 * V**2 + 3 * c_1**2 * rho + (n * L**2 + 2 * m_2) * sigma + n * nu_2**2 * rho * sigma for n in (3, 5)
    )
    assert ours <= both <= apart <= exact("sid-mse", q=q, mse_w=rho, mse_v=sigma, **constants)


def test_erratum_13_sigma_2_without_q_and_with_the_variance_of_the_derivative() -> None:
    """T̂ = ½w ± (¼w + c) at c = 1: of the three only the last is attained, at w = 4; its step is the largest."""
    q, m_1, longest, sigma_1 = HALF, Q(1, 16), Q(3, 4), Q(2)
    paper, without_q, ours = (
        2 * (longest**2 + q**2) / (1 - q) ** 2, 2 * longest**2 / (1 - q) ** 2, 2 * m_1 / (1 - q) ** 2,
    )  # fmt: skip
    assert (paper, without_q, ours) == (Q(13, 2), Q(9, 2), HALF)
    assert [1 / (1 + sigma_2) for sigma_2 in (paper, without_q, ours)] == [Q(2, 15), Q(2, 11), Q(2, 3)]
    for w in range(-20, 21):
        spread = variance((Q(w, 2) + Q(w, 4) + 1, Q(w, 2) - Q(w, 4) - 1))
        assert spread <= sigma_1 + ours * Q(w, 2) ** 2
    assert variance((Q(4), Q(0))) == sigma_1 + ours * 2**2

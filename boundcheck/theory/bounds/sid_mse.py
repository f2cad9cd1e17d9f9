"""Theorem 3.4 of Grazzi, Pontil, Salzo 2021: the mean square error of a stochastic hypergradient.

    E‖∇̂f−∇f‖² ≤ 2m₂L_E²/(1−q)² + 6c₁²ρ_t + 2(4L_Φ²+m₂)σ_k + 8ν₂²ρ_tσ_k

with c₁ and L_Φ of Theorem 3.1. The paper counts the bias twice and doubles the first term; `sid-orthogonal` does not.
"""

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import sid_variance_given_w, sid_variance_of_mean
from boundcheck.theory.bounds.sid_bias import ASSUMPTIONS
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.stochastic_terms import WEIGHT, deviation, squares
from boundcheck.theory.symbols import (
    L_Phi_star,
    bias,
    c_1,
    m_2,
    mse,
    mse_v,
    mse_w,
    nu_2,
    variance_given_w,
    variance_of_mean,
)

FORMULA = (
    sid_variance_given_w.FLOOR
    + 6 * c_1**2 * mse_w
    + 2 * (4 * L_Phi_star**2 + m_2) * mse_v
    + 8 * nu_2**2 * mse_w * mse_v
)

CHAIN = (
    Chain.from_measured(mse)
    .to(
        "bias and variances", bias**2 + variance_given_w + variance_of_mean, "an equality, by the law of total variance"
    )
    .replacing(
        "bias",
        {bias: deviation(WEIGHT)},
        "Theorem 3.1",
        ("nu_1", "nu_2", "eta_1", "eta_2", "L_E", "q", "L_Phi_star"),
    )
    .to(
        "squares of sums",
        3 * squares(WEIGHT) + variance_given_w + variance_of_mean,
        "(x+y+z)² ≤ 3(x²+y²+z²)",
    )
    .replacing("variance of the mean", {variance_of_mean: 3 * squares(WEIGHT)}, "Theorem 3.3")
    .replacing("variance given w_t", {variance_given_w: sid_variance_given_w.FORMULA}, "Theorem 3.2", ("m_2",))
)

BOUND = Bound(
    name="sid-mse",
    title="Mean square error of a stochastic hypergradient",
    reference=Citation(GRAZZI_2021, "Theorem 3.4", "mean square error"),
    assumptions=ASSUMPTIONS,
    formula=FORMULA,
    bounds=mse,
    methods=("sid", "neumann"),
    where=sid_variance_of_mean.BOUND.where,
    chain=CHAIN,
)

"""Theorem 3.2 of Grazzi, Pontil, Salzo 2021: the mean variance of a stochastic hypergradient given w_t.

    E V[∇̂f|w_t] ≤ 2m₂L_E²/(1−q)² + 2(L_Φ²+m₂)σ_k + 2ν₂²ρ_tσ_k

with L_Φ = ‖∂₂Φ(w*)‖. The first term remains for any number of steps; a larger batch reduces it.
"""

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds.sid_bias import ASSUMPTIONS
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.stochastic_terms import LAST_DRAW, LINEAR_SOLUTION, deviation
from boundcheck.theory.symbols import L_Phi_star, m_2, mse_v, mse_w, nu_2, variance_given_w

FLOOR = 2 * m_2 * LINEAR_SOLUTION**2
FORMULA = FLOOR + 2 * (L_Phi_star**2 + m_2) * mse_v + 2 * nu_2**2 * mse_w * mse_v

CHAIN = (
    Chain.from_measured(variance_given_w)
    .to(
        "two draws",
        LAST_DRAW + deviation(0) ** 2,
        "V[Ẑᵀv_k|w_t] = E V[Ẑᵀv_k|w_t,v_k] + V[Z_tᵀv_k|w_t], and a variance is least around the mean",
        ("m_2", "L_E", "q", "L_Phi_star", "nu_2"),
    )
    .to("squares of sums", FORMULA, "(x+y)² ≤ 2x² + 2y², twice")
)

BOUND = Bound(
    name="sid-variance-given-w",
    title="Variance of a stochastic hypergradient given w_t",
    reference=Citation(GRAZZI_2021, "Theorem 3.2", "variance given w"),
    assumptions=ASSUMPTIONS,
    formula=FORMULA,
    bounds=variance_given_w,
    methods=("sid", "neumann"),
    chain=CHAIN,
)

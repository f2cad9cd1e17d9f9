"""Theorem 3.3 of Grazzi, Pontil, Salzo 2021: the variance of the mean of a stochastic hypergradient given w_t.

    V E[∇̂f|w_t] ≤ 3(c₁²ρ_t + L_Φ²σ_k + ν₂²ρ_tσ_k)

with c₁ and L_Φ of Theorem 3.1. The right-hand side also bounds V E[∇̂f|w_t] + ‖E∇̂f−∇f‖², the mean square of
E[∇̂f|w_t]−∇f.
"""

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds.sid_bias import ASSUMPTIONS
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.stochastic_terms import WEIGHT, deviation, squares
from boundcheck.theory.symbols import c_1, variance_of_mean

CHAIN = (
    Chain.from_measured(variance_of_mean)
    .to(
        "mean square error of the mean",
        deviation(WEIGHT) ** 2,
        "V X ≤ E‖X−∇f‖² for X = E[∇̂f|w_t], and Minkowski's inequality for the three terms of the bias",
        ("nu_1", "nu_2", "eta_1", "eta_2", "L_E", "q", "L_Phi_star"),
    )
    .to("squares of sums", 3 * squares(WEIGHT), "(x+y+z)² ≤ 3(x²+y²+z²)")
)

BOUND = Bound(
    name="sid-variance-of-mean",
    title="Variance of the conditional mean of a stochastic hypergradient",
    reference=Citation(GRAZZI_2021, "Theorem 3.3", "variance of the mean"),
    assumptions=ASSUMPTIONS,
    formula=3 * squares(c_1),
    bounds=variance_of_mean,
    methods=("sid", "neumann"),
    where={c_1: WEIGHT},
    chain=CHAIN,
)

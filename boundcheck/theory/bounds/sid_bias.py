"""Theorem 3.1 of Grazzi, Pontil, Salzo 2021: the bias of a stochastic hypergradient.

    ‖E∇̂f−∇f‖ ≤ c₁√ρ_t + L_Φ√σ_k + ν₂√ρ_t√σ_k,   c₁ = η₂ + (η₁L_Φ + ν₂L_E)/(1−q) + ν₁L_ΦL_E/(1−q)²

with ρ_t ≥ E‖w_t−w*‖² and σ_k ≥ E‖v_k−v(w)‖² for every w. L_Φ is ‖∂₂Φ(w*)‖. The draws for w, the draws for v and the
last draw are independent; with the same draw for all, the theorem is false.
"""

from boundcheck.theory.assumptions import INDEPENDENT, STOCHASTIC_A, STOCHASTIC_B, STOCHASTIC_C
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.lemmas import W_BOUND
from boundcheck.theory.stochastic_terms import WEIGHT, WEIGHT_WITH_TRUE_W, deviation
from boundcheck.theory.symbols import W, bias, c_1

ASSUMPTIONS = (STOCHASTIC_A, STOCHASTIC_B, STOCHASTIC_C, INDEPENDENT)

CHAIN = (
    Chain.from_measured(bias)
    .to(
        "triangle inequality",
        deviation(WEIGHT_WITH_TRUE_W),
        "E[∇̂f|w_t]−∇f = a(w_t) + Z_tᵀ(E[v_k|w_t]−v(w_t)), ‖a(w)‖ ≤ c‖w−w*‖, and √E bounds E",
        ("nu_1", "nu_2", "eta_1", "eta_2", "L_E", "q", "W", "L_Phi_star"),
    )
    .replacing("‖w'‖", {W: W_BOUND}, "w' = (I−∂₁Φ)⁻¹∂₂Φ at w*", ("L_Phi_star", "q"))
)

BOUND = Bound(
    name="sid-bias",
    title="Bias of a stochastic hypergradient",
    reference=Citation(GRAZZI_2021, "Theorem 3.1", "bias"),
    assumptions=ASSUMPTIONS,
    formula=deviation(c_1),
    bounds=bias,
    methods=("sid", "neumann"),
    where={c_1: WEIGHT},
    chain=CHAIN,
)

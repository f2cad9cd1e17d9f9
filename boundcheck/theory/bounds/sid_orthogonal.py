"""Mean square error of a stochastic hypergradient, with a separate term for the last draw; at most Theorem 3.4 of 2021.

    E‖∇̂f−∇f‖² ≤ (c√ρ_t + L_Φ√σ_k + ν₂√ρ_t√σ_k)² + m₂(L_E/(1−q) + √σ_k)²,   c = η₂ + η₁W + (ν₂+ν₁W)L_E/(1−q)

Given w_t and v_k, the error of the last draw is orthogonal to the rest, so squares add up without a factor 2. L_Φ is
‖∂₂Φ(w*)‖. Proof: docs/proofs.md.
"""

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds.sid_bias import ASSUMPTIONS
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.lemmas import W_BOUND
from boundcheck.theory.stochastic_terms import LAST_DRAW, WEIGHT_WITH_TRUE_W, deviation
from boundcheck.theory.symbols import W, c_1, mse

CHAIN = Chain.from_measured(mse).to(
    "orthogonal parts",
    deviation(WEIGHT_WITH_TRUE_W) ** 2 + LAST_DRAW,
    "∇̂f−∇f = a(w_t) + Z_tᵀ(v_k−v(w_t)) + (Ẑ−Z_t)ᵀv_k; the last has mean 0 given the rest; Minkowski for the others",
    ("nu_1", "nu_2", "eta_1", "eta_2", "L_E", "q", "W", "L_Phi_star", "m_2"),
)

BOUND = Bound(
    name="sid-orthogonal",
    title="Mean square error of a stochastic hypergradient, last draw apart",
    reference=Citation(BOUNDCHECK, "stochastic hypergradients, orthogonal", "sid-orthogonal"),
    assumptions=ASSUMPTIONS,
    formula=deviation(c_1) ** 2 + LAST_DRAW,
    bounds=mse,
    methods=("sid", "neumann"),
    where={c_1: WEIGHT_WITH_TRUE_W},
    defaults={W: W_BOUND},
    chain=CHAIN,
)

"""Theorem 4.3 of Grazzi, Pontil, Salzo 2021: the variance of a stochastic map, relative to its residual.

    V[Φ̂(w)] ≤ σ₁ + σ₂‖w−Φ(w)‖²,   σ₁ = 2V[Φ̂(w*)],   σ₂ = 2(L_Φ̂²+q²)/(1−q)²

for every w of a ball on which ‖∂₁Φ̂(·,ζ)‖ ≤ L_Φ̂ for every draw ζ. Theorems 4.1 and 4.2 take such σ₁ and σ₂. Where they
are not given, these are 2V[Φ̂(w*)] and 2m₁/(1−q)², which the chain passes through.
"""

from boundcheck.theory.assumptions import A2, LIPSCHITZ_DRAWS, NOISE_AROUND_SOLUTION
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds.sid import NOISE_GROWTH_OF_PAPER
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.stochastic_terms import NOISE_GROWTH
from boundcheck.theory.symbols import V_star, eps_w, m_1, noise_w, r_t

CHAIN = (
    Chain.from_measured(noise_w)
    .to(
        "noise around w*",
        2 * V_star + 2 * m_1 * r_t**2,
        "√V[Φ̂(w)] ≤ √V* + √m₁‖w−w*‖ and (x+y)² ≤ 2x² + 2y²",
        ("V_star", "m_1"),
    )
    .to("residual", 2 * V_star + NOISE_GROWTH * eps_w**2, "‖w−w*‖ ≤ ‖w−Φ(w)‖/(1−q)", ("q",))
    .to(
        "Lipschitz draws",
        2 * V_star + NOISE_GROWTH_OF_PAPER * eps_w**2,
        "m₁ ≤ L_Φ̂², and L_Φ̂² ≤ L_Φ̂² + q²",
        ("L_Phi_hat",),
    )
)

BOUND = Bound(
    name="stochastic-noise",
    title="Noise of a stochastic map relative to its residual",
    reference=Citation(GRAZZI_2021, "Theorem 4.3", "noise"),
    assumptions=(A2, NOISE_AROUND_SOLUTION, LIPSCHITZ_DRAWS),
    formula=2 * V_star + NOISE_GROWTH_OF_PAPER * eps_w**2,
    bounds=noise_w,
    methods=("sid", "neumann"),
    chain=CHAIN,
)

"""Theorem 4.1 of Grazzi, Pontil, Salzo 2021: stochastic fixed-point iterations with a constant step.

    E‖w_t−w*‖² ≤ (1−η(1−q²))^t (MSE_0 − ησ₁/(1−q²)) + ησ₁/(1−q²)   for η ≤ 1/(1+σ₂)

for w_{i+1} = w_i + η(Φ̂(w_i,ζ_i)−w_i) and V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖². The formula is written without cancellation.
Unless given, σ₁ = 2V[Φ̂(w*)] and σ₂ = 2m₁/(1−q)²; Theorem 4.3 has the same σ₂ with (L_Φ̂²+q²) instead of m₁.
"""

from boundcheck.theory.assumptions import NOISE, STOCHASTIC_MAP
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.stochastic_terms import GAP_OF_SQUARES, NOISE_GROWTH, factor
from boundcheck.theory.symbols import (
    V_star,
    averaged_t,
    eta,
    moves_t,
    mse_0,
    mse_w,
    noise_t,
    q,
    shrink,
    shrink_gap,
    sigma_1,
    sigma_2,
    t,
)

FORMULA = shrink**t * mse_0 + eta**2 * sigma_1 * GeometricSum(shrink_gap, t)
WHERE = {shrink: factor(q**2, eta), shrink_gap: eta * GAP_OF_SQUARES}
REMEDY = "take η at most 1/(1+σ₂), or the bound stochastic-recursive, which allows every step up to 1"
CHAIN = (
    Chain.from_measured(mse_w)
    .to(
        "contraction",
        shrink**t * mse_0 - averaged_t + noise_t,
        "‖(1−η)x+ηy‖² = (1−η)‖x‖²+η‖y‖²−η(1−η)‖x−y‖² for x = w_i−w* and y = Φ(w_i)−w*, ‖y‖ ≤ q‖x‖; noise has mean 0",
        ("q", "mse_0"),
    )
    .replacing(
        "noise",
        {noise_t: eta**2 * sigma_1 * GeometricSum(shrink_gap, t) + sigma_2 * moves_t},
        "V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖²",
        ("sigma_1", "sigma_2"),
    )
    .to("short steps", FORMULA, "η²σ₂ ≤ η(1−η), as η ≤ 1/(1+σ₂)", ("sigma_2",))
)

BOUND = Bound(
    name="stochastic-constant",
    title="Stochastic fixed-point iterations, constant step",
    reference=Citation(GRAZZI_2021, "Theorem 4.1", "constant step"),
    assumptions=(STOCHASTIC_MAP, NOISE),
    formula=FORMULA,
    bounds=mse_w,
    methods=("sid", "neumann"),
    where=WHERE,
    defaults={sigma_1: 2 * V_star, sigma_2: NOISE_GROWTH},
    conditions=(Condition(eta, 1 / (1 + sigma_2), REMEDY),),
    chain=CHAIN.specialised(WHERE),
)

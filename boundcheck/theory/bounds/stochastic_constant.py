"""Theorem 4.1 of Grazzi, Pontil, Salzo 2021: stochastic fixed-point iterations with a constant step.

    E‖w_t−w*‖² ≤ (1−η(1−q²))^t (MSE_0 − ησ₁/(1−q²)) + ησ₁/(1−q²)   for η ≤ 1/(1+σ₂)

for w_{i+1} = w_i + η(Φ̂(w_i,ζ_i)−w_i) and V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖², written so that nothing cancels. Unless given,
σ₁ = 2V[Φ̂(w*)] and σ₂ = 2m₁/(1−q)², which Theorem 4.3 has with (L_Φ̂²+q²) in place of m₁.
"""

from boundcheck.theory.assumptions import NOISE, STOCHASTIC_MAP
from boundcheck.theory.bound import Bound
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.stochastic_terms import GAP_OF_SQUARES, NOISE_GROWTH, factor
from boundcheck.theory.symbols import V_star, eta, mse_0, mse_w, q, shrink, shrink_gap, sigma_1, sigma_2, t

FORMULA = shrink**t * mse_0 + eta**2 * sigma_1 * GeometricSum(shrink_gap, t)
REMEDY = "take η at most 1/(1+σ₂), or the bound stochastic-recursive, which allows every step up to 1"

BOUND = Bound(
    name="stochastic-constant",
    title="Stochastic fixed-point iterations, constant step",
    reference=Citation(GRAZZI_2021, "Theorem 4.1", "constant step"),
    assumptions=(STOCHASTIC_MAP, NOISE),
    formula=FORMULA,
    bounds=mse_w,
    methods=("sid", "neumann"),
    where={shrink: factor(q**2, eta), shrink_gap: eta * GAP_OF_SQUARES},
    defaults={sigma_1: 2 * V_star, sigma_2: NOISE_GROWTH},
    conditions=(Condition(eta, 1 / (1 + sigma_2), REMEDY),),
)

"""Theorem 5.1 of Grazzi, Pontil, Salzo 2021: the mean square error of SID with decreasing steps for w and for v.

    E‖∇̂f−∇f‖² ≤ 2m₂L_E²/(1−q)² + 6c₁²ρ_t + 2(4L_Φ²+m₂)σ_k + 8ν₂²ρ_tσ_k
    ρ_t = max{γ MSE_0, 2β²V*/(β(1−q²)−1)}/(γ+t),   σ_k = (L_E²/(1−q)²) max{γ, 2β²L_Φ̂²/(β(1−q²)−1)}/(γ+k)

This is Theorem 3.4 with Theorem 4.2 for both iterations, η_i = β/(γ+i), v_0 = 0, β > 1/(1−q²) and γ ≥ β(1+σ₂), where
σ₂ = 2(L_Φ̂²+q²)/(1−q)² is that of Theorem 4.3. MSE_0 is ‖w*‖² if w_0 = 0. L_Φ is ‖∂₂Φ(w*)‖.
"""

from sympy import Integer

from boundcheck.theory.assumptions import (
    BOTH_DECREASE,
    INDEPENDENT,
    LIPSCHITZ_DRAWS,
    STOCHASTIC_A,
    STOCHASTIC_B,
    STOCHASTIC_MAP,
)
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import sid_mse
from boundcheck.theory.bounds.stochastic_decreasing import conditions, level
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.lemmas import INVERSE
from boundcheck.theory.stochastic_terms import LINEAR_SOLUTION
from boundcheck.theory.symbols import L_Phi_hat, V_star, gamma, k, mse, mse_0, mse_v, mse_w, q, t

NOISE_GROWTH_OF_PAPER = 2 * (L_Phi_hat**2 + q**2) * INVERSE**2  # Theorem 4.3
OF_W = level(mse_0, 2 * V_star) / (gamma + t)
OF_V = LINEAR_SOLUTION**2 * level(Integer(1), 2 * L_Phi_hat**2) / (gamma + k)

CHAIN = sid_mse.CHAIN.replacing(
    "lower level", {mse_w: OF_W}, "Theorem 4.2 with the σ₁ and σ₂ of Theorem 4.3", ("mse_0", "V_star", "q", "L_Phi_hat")
).replacing(
    "linear system",
    {mse_v: OF_V},
    "the same for v from 0, where ‖v(w)‖ ≤ L_E/(1−q) and V* ≤ L_Φ̂²‖v(w)‖²",
    ("L_E", "q", "L_Phi_hat"),
)

BOUND = Bound(
    name="sid",
    title="Mean square error of SID, decreasing steps",
    reference=Citation(GRAZZI_2021, "Theorem 5.1", "SID"),
    assumptions=(STOCHASTIC_A, STOCHASTIC_B, STOCHASTIC_MAP, LIPSCHITZ_DRAWS, BOTH_DECREASE, INDEPENDENT),
    formula=sid_mse.FORMULA,
    bounds=mse,
    methods=("sid",),
    where={
        **sid_mse.BOUND.where,
        mse_w: OF_W,
        mse_v: OF_V,
    },
    conditions=conditions(NOISE_GROWTH_OF_PAPER),
    chain=CHAIN,
)

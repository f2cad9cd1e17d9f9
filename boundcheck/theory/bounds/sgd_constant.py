"""Corollary 4.1 of Grazzi, Pontil, Salzo 2021, constant step: stochastic gradient descent as a stochastic map.

    E‖w_t−w*‖² ≤ r^t (MSE_0 − ηα²σ'₁/(1−q²)) + ηα²σ'₁/(1−q²),   r = 1−η(1−q²),  q = max(1−αμ, αL−1)

This is Theorem 4.1 with σ₁ = α²σ'₁ and σ₂ = σ'₂, for Φ̂ = w−α∇₁ℓ̂ and η ≤ 1/(1+σ'₂). The step along the gradient is ηα.
At α = 1/L and α = 2/(L+μ), r is the r₁ and the r₂ of the paper.
"""

from boundcheck.theory.assumptions import GRADIENT_NOISE, STOCHASTIC_MAP
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd_gd, stochastic_constant
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.coefficients import GRADIENT_DESCENT
from boundcheck.theory.condition import Condition
from boundcheck.theory.stochastic_terms import factor
from boundcheck.theory.symbols import (
    alpha,
    eta,
    gap,
    mse_w,
    q,
    shrink,
    shrink_gap,
    sigma_1,
    sigma_1_grad,
    sigma_2,
    sigma_2_grad,
)

NOISE_OF_GRADIENT = alpha**2 * sigma_1_grad
GAP_OF_SQUARES = GRADIENT_DESCENT[gap] * (2 - GRADIENT_DESCENT[gap])
WHERE = {shrink: factor(GRADIENT_DESCENT[q] ** 2, eta), shrink_gap: eta * GAP_OF_SQUARES}
FORMS = {q: GRADIENT_DESCENT[q], sigma_1: NOISE_OF_GRADIENT, sigma_2: sigma_2_grad}

BOUND = Bound(
    name="sgd-constant",
    title="Stochastic gradient descent, constant step",
    reference=Citation(GRAZZI_2021, "Corollary 4.1, constant step", "gradient descent, constant step"),
    assumptions=(STOCHASTIC_MAP, GRADIENT_NOISE),
    formula=stochastic_constant.FORMULA.subs(sigma_1, NOISE_OF_GRADIENT),
    bounds=mse_w,
    methods=("sid", "neumann"),
    where=WHERE,
    conditions=(
        Condition(eta, 1 / (1 + sigma_2_grad), "take η at most 1/(1+σ'₂)"),
        itd_gd.CONTRACTS,
        itd_gd.ORDERED,
    ),
    chain=stochastic_constant.CHAIN.specialised({**FORMS, **WHERE}),
)

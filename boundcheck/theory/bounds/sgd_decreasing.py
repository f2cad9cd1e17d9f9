"""Corollary 4.1 of Grazzi, Pontil, Salzo 2021, decreasing steps: stochastic gradient descent as a stochastic map.

    E‖w_t−w*‖² ≤ max{γ MSE_0, β²α²σ'₁/(β(1−q²)−1)}/(γ+t),   q = max(1−αμ, αL−1)

This is Theorem 4.2 with σ₁ = α²σ'₁ and σ₂ = σ'₂, for Φ̂ = w−α∇₁ℓ̂, η_i = β/(γ+i), β > 1/(1−q²) and γ ≥ β(1+σ'₂). At
α = 1/L and α = 2/(L+μ), the second number is the r₃ of the paper.
"""

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd_gd, sgd_constant, stochastic_decreasing
from boundcheck.theory.bounds.sgd_constant import GAP_OF_SQUARES, NOISE_OF_GRADIENT
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.symbols import gamma, mse_0, mse_w, sigma_2_grad, t

BOUND = Bound(
    name="sgd-decreasing",
    title="Stochastic gradient descent, decreasing steps",
    reference=Citation(GRAZZI_2021, "Corollary 4.1, decreasing steps", "gradient descent, decreasing steps"),
    assumptions=sgd_constant.BOUND.assumptions,
    formula=stochastic_decreasing.level(mse_0, NOISE_OF_GRADIENT, GAP_OF_SQUARES) / (gamma + t),
    bounds=mse_w,
    methods=("sid", "neumann"),
    conditions=(
        *stochastic_decreasing.conditions(sigma_2_grad, GAP_OF_SQUARES),
        itd_gd.CONTRACTS,
        itd_gd.ORDERED,
    ),
    chain=stochastic_decreasing.chain(
        NOISE_OF_GRADIENT,
        sigma_2_grad,
        ("alpha", "sigma_1_grad", "sigma_2_grad"),
        GAP_OF_SQUARES,
        ("alpha", "mu", "L"),
    ),
)

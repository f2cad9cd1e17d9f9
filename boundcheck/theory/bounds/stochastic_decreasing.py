"""Theorem 4.2 of Grazzi, Pontil, Salzo 2021: stochastic fixed-point iterations with steps β/(γ+i).

    E‖w_t−w*‖² ≤ max{γ MSE_0, β²σ₁/(β(1−q²)−1)}/(γ+t)   for β > 1/(1−q²), γ ≥ β(1+σ₂)

for w_{i+1} = w_i + η_i(Φ̂(w_i,ζ_i)−w_i), η_i = β/(γ+i), and V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖². Unless given, σ₁ = 2V[Φ̂(w*)]
and σ₂ = 2m₁/(1−q)².
"""

import sympy as sp

from boundcheck.theory.assumptions import NOISE, STOCHASTIC_MAP
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import stochastic_constant
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI_2021, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.stochastic_terms import GAP_OF_SQUARES
from boundcheck.theory.symbols import (
    M_t,
    averaged_t,
    beta,
    gamma,
    moves_t,
    mse_0,
    mse_w,
    noise_t,
    sigma_1,
    sigma_2,
    start_t,
    t,
)


def level(start: sp.Expr, noise: sp.Expr, gap_of_squares: sp.Expr = GAP_OF_SQUARES) -> sp.Expr:
    """A bound on γ+t times the mean square distance, from the distance at the start and σ₁."""
    return sp.Max(gamma * start, beta**2 * noise / (beta * gap_of_squares - 1))


def conditions(noise_growth: sp.Expr, gap_of_squares: sp.Expr = GAP_OF_SQUARES) -> tuple[Condition, ...]:
    """The conditions β > 1/(1−q²) and γ ≥ β(1+σ₂)."""
    return (
        Condition(1 / gap_of_squares, beta, "take β above 1/(1−q²), best 2/(1−q²)", strict=True),
        Condition(beta * (1 + noise_growth), gamma, "take γ at least β(1+σ₂), or the bound of a general schedule"),
    )


def chain(
    noise: sp.Expr,
    noise_growth: sp.Expr,
    uses: tuple[str, ...],
    gap_of_squares: sp.Expr = GAP_OF_SQUARES,
    rate: tuple[str, ...] = ("q",),
) -> Chain:
    """The proof for V[Φ̂(w)] ≤ noise + noise_growth·‖Φ(w)−w‖²; `uses` are the constants in these two, `rate` in 1−q²."""
    remains = "M_0 = MSE_0, M_{i+1} = (1−η_i(1−q²))M_i + η_i²σ₁"
    return (
        Chain.from_measured(mse_w)
        .to(
            "contraction",
            start_t - averaged_t + noise_t,
            "‖(1−η)x+ηy‖² = (1−η)‖x‖²+η‖y‖²−η(1−η)‖x−y‖² for x = w_i−w*, y = Φ(w_i)−w*, ‖y‖ ≤ q‖x‖; noise has mean 0",
            (*rate, "mse_0"),
        )
        .to(
            "noise",
            M_t - averaged_t + noise_growth * moves_t,
            f"V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖²; {remains}",
            ("mse_0", *rate, *uses),
        )
        .to("short steps", M_t, "η_i²σ₂ ≤ η_i(1−η_i), as γ ≥ β(1+σ₂)", uses)
        .to(
            "induction",
            level(mse_0, noise, gap_of_squares) / (gamma + t),
            "M_i ≤ Γ/(γ+i) gives (1−p/n)Γ/n + (p−1)Γ/n² ≤ Γ/(n+1) for n = γ+i, p = β(1−q²)",
            ("mse_0", *rate, *uses),
        )
    )


BOUND = Bound(
    name="stochastic-decreasing",
    title="Stochastic fixed-point iterations, decreasing steps",
    reference=Citation(GRAZZI_2021, "Theorem 4.2", "decreasing steps"),
    assumptions=(STOCHASTIC_MAP, NOISE),
    formula=level(mse_0, sigma_1) / (gamma + t),
    bounds=mse_w,
    methods=("sid", "neumann"),
    defaults=stochastic_constant.BOUND.defaults,
    conditions=conditions(sigma_2),
    chain=chain(sigma_1, sigma_2, ("sigma_1", "sigma_2")),
)

"""A posteriori bound for AID from a Newton step: the norms at the iterate in the place of those that suprema give.

With W_t = ‖(I−∂₁Φ(w))⁻¹∂₂Φ(w)‖, ṽ = (I−∂₁Φ(w)ᵀ)⁻¹∇₁E(w), the Newton step s = (I−∂₁Φ(w))⁻¹(w−Φ(w)) and
a = ‖(I−∂₁Φ(w))⁻¹‖, where 3aν₁ε_w ≤ μ_λ and 6aν₁‖s‖ ≤ 1:

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁W_t + (ν₂ + ν₁W_t) V) δ + ‖∂₂Φ(w)ᵀ(v−ṽ)‖,
    δ = 2‖s‖/(1 + √(1−6aν₁‖s‖)) ≥ ‖w−w*‖,   V = (‖ṽ‖ + aη₁δ)/(1 − aν₁δ) ≥ ‖v*‖

All norms are computed at the iterate w, so nothing refers to w*; suprema enter through η and ν alone, on a ball around
w that contains w*. Where ν₁ = 0, both conditions hold and δ is ‖w−w*‖ itself. Proof: docs/proofs.md.
"""

from sympy import Integer, Max, Rational, sqrt

from boundcheck.theory.assumptions import A1_III, A1_IV, A3_I, BALL_AROUND_ITERATE
from boundcheck.theory.bound import Bound, Condition
from boundcheck.theory.chain import Chain
from boundcheck.theory.reference import BOUNDCHECK, Reference
from boundcheck.theory.symbols import (
    A_t_inv,
    W_t,
    dE_1,
    dE_2,
    dY,
    dZ,
    eps_w,
    error,
    eta_1,
    eta_2,
    mu_inv,
    newton_t,
    nu_1,
    nu_2,
    r_t,
    solve_error,
    v_star,
    v_t,
)

# what Max puts for a number is never taken under the conditions; it makes the formula one for all numbers
DELTA = 2 * newton_t / (1 + sqrt(Max(1 - 6 * A_t_inv * nu_1 * newton_t, 0)))
SOLUTION = (v_t + A_t_inv * eta_1 * r_t) / Max(1 - A_t_inv * nu_1 * r_t, Rational(2, 3))
TOO_FAR = "the iterate is too far from w* for its Newton step to certify it; take more steps, or use aid-posteriori"

CHAIN = (
    Chain.from_measured(error)
    .to(
        "triangle inequality and norms of products",
        dE_2 + W_t * (dE_1 + dY * v_star) + dZ * v_star + solve_error,
        "∇̂f−∇f = (c(w)−c) + W(w)ᵀ((b(w)−b) + (A−A(w))v*) + (Z(w)−Z)ᵀv* + Z(w)ᵀ(v−ṽ)",
    )
    .with_lipschitz_derivatives()
    .replacing("the solution v*", {v_star: SOLUTION}, "v* = ṽ − A(w)⁻¹((b(w)−b) + (A−A(w))v*)", ("eta_1", "nu_1"))
    .replacing("distance to w*", {r_t: DELTA}, "Kantorovich: r ≤ ‖s‖ + (3/2)aν₁r², and r ≤ ε_w/μ_λ", ("nu_1", "mu_inv"))
)

BOUND = Bound(
    name="aid-newton",
    title="A posteriori AID bound from a Newton step",
    reference=Reference(BOUNDCHECK, "a posteriori, Newton", "aid-newton"),
    assumptions=(A1_III, A1_IV, A3_I, BALL_AROUND_ITERATE),
    formula=((eta_2 + eta_1 * W_t + (nu_2 + nu_1 * W_t) * SOLUTION) * r_t).subs(r_t, DELTA) + solve_error,
    methods=("aid-fp", "aid-cg", "aid-cgn", "exact"),
    conditions=(
        Condition(3 * A_t_inv * nu_1 * eps_w, mu_inv, TOO_FAR),
        Condition(6 * A_t_inv * nu_1 * newton_t, Integer(1), TOO_FAR),
    ),
    chain=CHAIN,
)

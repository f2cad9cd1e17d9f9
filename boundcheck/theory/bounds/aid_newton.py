"""A posteriori bound for AID from a Newton step: norms at the iterate replace bounds by suprema.

With W_t = ‖(I−∂₁Φ(w))⁻¹∂₂Φ(w)‖, ṽ = (I−∂₁Φ(w)ᵀ)⁻¹∇₁E(w), the Newton step s = (I−∂₁Φ(w))⁻¹(w−Φ(w)) and
a = ‖(I−∂₁Φ(w))⁻¹‖, if 3aν₁ε_w ≤ μ_λ and 6aν₁‖s‖ ≤ 1:

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁W_t + (ν₂ + ν₁W_t) V) δ + ‖∂₂Φ(w)ᵀ(v−ṽ)‖,
    δ = 2‖s‖/(1 + √(1−6aν₁‖s‖)) ≥ ‖w−w*‖,   V = (‖ṽ‖ + aη₁δ)/(1 − aν₁δ) ≥ ‖v*‖

All norms are computed at the iterate w, and none at w*. Only η and ν are suprema, over a ball around w that contains
w*. If ν₁ = 0, both conditions hold and δ is ‖w−w*‖ itself. Proof: docs/proofs.md.
"""

from sympy import Integer, Max, Rational, sqrt

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid_certificate
from boundcheck.theory.bounds.aid_certificate import PROOF, WEIGHT
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.symbols import A_t_inv, eps_w, eta_1, mu_inv, newton_t, nu_1, r_t, solve_error, v_star, v_t

# the conditions make the second argument of Max inactive; it only defines the formula for all numbers
DELTA = 2 * newton_t / (1 + sqrt(Max(1 - 6 * A_t_inv * nu_1 * newton_t, 0)))
SOLUTION = (v_t + A_t_inv * eta_1 * r_t) / Max(1 - A_t_inv * nu_1 * r_t, Rational(2, 3))
TOO_FAR = "the iterate is too far from w* for its Newton step to certify it; take more steps"

CHAIN = PROOF.replacing(
    "the solution v*", {v_star: SOLUTION}, "v* = ṽ − A(w)⁻¹((b(w)−b) + (A−A(w))v*)", ("eta_1", "nu_1")
).replacing("distance to w*", {r_t: DELTA}, "Kantorovich: r ≤ ‖s‖ + (3/2)aν₁r², and r ≤ ε_w/μ_λ", ("nu_1", "mu_inv"))

BOUND = Bound(
    name="aid-newton",
    title="A posteriori AID bound from a Newton step",
    reference=Citation(BOUNDCHECK, "a posteriori, Newton", "aid-newton"),
    assumptions=aid_certificate.BOUND.assumptions,
    formula=(WEIGHT * r_t).subs(v_star, SOLUTION).subs(r_t, DELTA) + solve_error,
    methods=aid_certificate.BOUND.methods,
    conditions=(
        Condition(3 * A_t_inv * nu_1 * eps_w, mu_inv, TOO_FAR),
        Condition(6 * A_t_inv * nu_1 * newton_t, Integer(1), TOO_FAR),
    ),
    chain=CHAIN,
)

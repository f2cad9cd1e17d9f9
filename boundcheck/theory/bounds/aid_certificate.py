"""A posteriori bound for AID from two residuals, with the norm of the derivative at the iterate.

With W_t = ‖(I−∂₁Φ(w))⁻¹∂₂Φ(w)‖, the residuals ε_w, ε_v of w and v, and δ = ε_w/μ_λ ≥ ‖w−w*‖, where 2ν₁δ ≤ μ_λ:

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁W_t + (ν₂ + ν₁W_t) V) δ + W_t ε_v,   V = (‖v‖ + (ε_v + η₁δ)/μ_λ)/(1 − ν₁δ/μ_λ) ≥ ‖v*‖

Constants on a ball around w that contains w*. At a w that is accurate to rounding, this bound certifies a reference
hypergradient; `check` uses it for that. Proof: docs/proofs.md.
"""

from sympy import Max, Rational

from boundcheck.theory.assumptions import A1_III, A1_IV, A3_I, BALL_AROUND_ITERATE, RESIDUAL
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.symbols import (
    W_t,
    dE_1,
    dE_2,
    dY,
    dZ,
    eps_v,
    eps_w,
    error,
    eta_1,
    eta_2,
    mu_inv,
    nu_1,
    nu_2,
    r_t,
    solve_error,
    v_k,
    v_star,
)

PROOF = (
    Chain.from_measured(error)
    .to(
        "triangle inequality and norms of products",
        dE_2 + W_t * (dE_1 + dY * v_star) + dZ * v_star + solve_error,
        "∇̂f−∇f = (c(w)−c) + W(w)ᵀ((b(w)−b) + (A−A(w))v*) + (Z(w)−Z)ᵀv* + Z(w)ᵀ(v−ṽ)",
    )
    .with_lipschitz_derivatives()
)
WEIGHT = eta_2 + eta_1 * W_t + (nu_2 + nu_1 * W_t) * v_star  # the weight of ‖w−w*‖

DELTA = eps_w / mu_inv
# the condition makes the second argument of Max inactive; it only defines the formula for all numbers
SOLUTION = (v_k + (eps_v + eta_1 * r_t) / mu_inv) / Max(1 - nu_1 * r_t / mu_inv, Rational(1, 2))

CHAIN = (
    PROOF.replacing("residual of the system", {solve_error: W_t * eps_v}, "Z(w)ᵀ(v−ṽ) = W(w)ᵀ times it")
    .replacing(
        "the solution v*",
        {v_star: SOLUTION},
        "v* = v − A(w)⁻¹(residual + (b(w)−b) + (A−A(w))v*)",
        ("eta_1", "nu_1", "mu_inv"),
    )
    .replacing("residual of the fixed point", {r_t: DELTA}, "‖w−w*‖ ≤ ε_w/μ_λ", ("mu_inv",))
)

BOUND = Bound(
    name="aid-certificate",
    title="A posteriori AID bound from residuals",
    reference=Citation(BOUNDCHECK, "a posteriori, residuals", "aid-certificate"),
    assumptions=(A1_III, A1_IV, A3_I, RESIDUAL, BALL_AROUND_ITERATE),
    formula=(WEIGHT * r_t).subs(v_star, SOLUTION).subs(r_t, DELTA) + W_t * eps_v,
    methods=("aid-fp", "aid-cg", "aid-cgn", "exact"),
    conditions=(
        Condition(
            2 * nu_1 * eps_w,
            mu_inv**2,
            "the iterate is too far from w* for its residual to certify it; take more steps",
        ),
    ),
    chain=CHAIN,
)

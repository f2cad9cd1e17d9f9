"""A posteriori bound for AID, computable from the iterates alone, without knowledge of w*.

With ε_w = ‖w−Φ(w)‖, ε_v = ‖(I−∂₁Φ(w)ᵀ)v−∇₁E(w)‖ and δ = ε_w/(1−q) ≥ ‖w−w*‖:

    ‖∇̂f−∇f‖ ≤ (η₂ + (η₁‖∂₂Φ(w)‖ + ν₂‖∇₁E(w)‖)/(1−q) + ν₁‖∂₂Φ(w)‖‖∇₁E(w)‖/(1−q)²) δ
               + ν₂η₁/(1−q) δ² + ‖∂₂Φ(w)‖ ε_v/(1−q)

Constants on a ball around w that contains w*, such as B(w, δ). The bound can also certify a reference hypergradient.
Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import A1_III, A1_IV, A2, BALL_AROUND_ITERATE
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.lemmas import INVERSE
from boundcheck.theory.symbols import (
    Z_t,
    dE_1,
    dE_2,
    dv_t,
    dY,
    dZ,
    eps_v,
    eps_w,
    error,
    eta_1,
    eta_2,
    g_t,
    nu_1,
    nu_2,
    q,
    r_t,
    solve_error,
    v_star,
    v_t,
)

DELTA = eps_w * INVERSE

CHAIN = (
    Chain.from_measured(error)
    .to(
        "triangle inequality and norms of products",
        dE_2 + solve_error + Z_t * dv_t + dZ * v_star,
        "∇̂f−∇f = (c(w)−c) + Z(w)ᵀ(v−ṽ) + Z(w)ᵀ(ṽ−v*) + (Z(w)−Z)ᵀv*, where ṽ solves the system at w",
    )
    .replacing("residual of the system", {solve_error: Z_t * INVERSE * eps_v}, "v−ṽ = A(w)⁻¹ times it", ("q",))
    .replacing("perturbed system", {dv_t: INVERSE * (dE_1 + dY * v_t)}, "ṽ−v* = A⁻¹((A−A(w))ṽ + b(w)−b)", ("q",))
    .replacing(
        "solutions by inverses",
        {v_t: INVERSE * g_t, v_star: INVERSE * (g_t + dE_1)},
        "Lemma 2.2, and ‖b‖ ≤ ‖b(w)‖ + ‖b(w)−b‖",
        ("q",),
    )
    .with_lipschitz_derivatives()
    .replacing("residual of the fixed point", {r_t: DELTA}, "‖w−w*‖ ≤ ε_w + q‖w−w*‖", ("q",))
)

BOUND = Bound(
    name="aid-posteriori",
    title="A posteriori AID bound",
    reference=Citation(BOUNDCHECK, "a posteriori", "aid-posteriori"),
    assumptions=(A1_III, A1_IV, A2, BALL_AROUND_ITERATE),
    formula=(eta_2 + (eta_1 * Z_t + nu_2 * g_t) / (1 - q) + nu_1 * Z_t * g_t / (1 - q) ** 2) * DELTA
    + nu_2 * eta_1 / (1 - q) * DELTA**2
    + Z_t * eps_v / (1 - q),
    methods=("aid-fp", "aid-cg", "aid-cgn", "exact"),
    chain=CHAIN,
)

"""AID-CG in the energy norm: the factor √κ of the Euclidean rate is not needed.

    ‖∇̂f−∇f‖ ≤ (c₁ + c₂/(1−q)) ρ(t) + c₃ / T_k((κ+1)/(κ−1))

‖Zᵀ(v_{t,k}−v_t)‖ ≤ ‖Z‖ ‖A^{−½}‖ ‖v_{t,k}−v_t‖_A, CG minimises the last factor, and ‖v_t‖_A = ‖A^{−½}∇₁E(w_t)‖.
Proof: docs/proofs.md.
"""

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid, aid_cg, aid_contraction
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.rates import CONTRACTION, INVERSE_CHEBYSHEV
from boundcheck.theory.symbols import (
    A_t_inv,
    Z_t,
    ZT_dv,
    c_3,
    dE_1,
    dv_t,
    dY,
    dZ,
    dZT_v,
    g_t,
    mu_inv,
    q,
    rho,
    solve_error,
    v_star,
)

CHAIN = aid.with_ball_constants(
    Chain(aid.PROOF.links[:2])
    .replacing("two errors in v", {ZT_dv: solve_error + Z_t * dv_t, dZT_v: dZ * v_star}, "through v_t; ‖Mᵀx‖ ≤ ‖M‖‖x‖")
    .replacing("perturbed system", {dv_t: A_t_inv * (dE_1 + dY * v_star)}, "v_t−v = A_t⁻¹((b_t−b) + (A−A_t)v)")
    .replacing(
        "CG in the energy norm",
        {solve_error: Z_t * A_t_inv * g_t * INVERSE_CHEBYSHEV},
        "‖Zᵀe‖ ≤ ‖Z‖‖A^{−½}‖‖e‖_A, Chebyshev, ‖v_t‖_A = ‖A^{−½}b_t‖",
        ("kappa",),
    )
).replacing("contraction", {mu_inv: 1 - q}, "Lemma 2.2: μ_λ ≥ 1−q", ("q",))

BOUND = Bound(
    name="aid-cg-energy",
    title="AID-CG bound, energy norm",
    reference=Citation(BOUNDCHECK, "CG in the energy norm", "cg-energy"),
    assumptions=aid_cg.BOUND.assumptions,
    formula=aid_contraction.LOWER * rho + c_3 * INVERSE_CHEBYSHEV,
    methods=("aid-cg",),
    defaults={rho: CONTRACTION.expression},
    conditions=(aid.STAYS_IN_BALL,),
    chain=CHAIN,
)

"""Theorem 2.2 (`th:gradBoundImplicit`), the AID bound for any pair of solvers.

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁L_Φ/μ_λ + ν₂L_E/μ_λ + ν₁L_ΦL_E/μ_λ²) D ρ(t) + (L_ΦL_E/μ_λ) σ(k)

under Assumptions 1(i), (iii), (iv) and 3. L_Φ is the supremum over the ball ‖w‖ ≤ 2D; the value at w* is not enough
(errata 1). ρ(t) ≤ 1 keeps w_t in this ball; it fails for heavy ball (errata 3). Give `rho` and `sigma` as numbers or
as rates by name.
"""

from sympy import Integer

from boundcheck.theory.assumptions import A1_I, A1_III, A1_IV, A3_I, A3_II, A3_III, START_AT_ZERO
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.symbols import (
    L_E,
    A_inv,
    A_t_inv,
    D,
    L_Phi,
    Z_t,
    ZT_dv,
    dE_1,
    dE_2,
    dv_k,
    dv_kt,
    dv_t,
    dY,
    dZ,
    dZT_v,
    error,
    eta_1,
    eta_2,
    g_star,
    g_t,
    mu_inv,
    nu_1,
    nu_2,
    r_0,
    r_t,
    rho,
    sigma,
    v_star,
    v_t,
)

LOWER = (eta_2 + eta_1 * L_Phi / mu_inv + nu_2 * L_E / mu_inv + nu_1 * L_Phi * L_E / mu_inv**2) * D
UPPER = L_Phi * L_E / mu_inv

STAYS_IN_BALL = Condition(
    rho,
    Integer(1),
    "Assumption 3(ii) fails and w_t may leave the ball ‖w‖ ≤ 2D; use aid-local or aid-fp-local with constants on "
    "B(w*, r_0·max ρ)",
)

PROOF = (
    Chain.from_measured(error)
    .to("triangle inequality", dE_2 + ZT_dv + dZT_v, "∇̂f−∇f = (c_t−c) + Z_tᵀ(v_{t,k}−v) + (Z_t−Z)ᵀv")
    .replacing("norms of products", {ZT_dv: Z_t * dv_k, dZT_v: dZ * v_star}, "‖Mᵀx‖ ≤ ‖M‖‖x‖")
    .replacing("two errors in v", {dv_k: dv_kt + dv_t}, "triangle inequality through v_t")
    .replacing("perturbed system", {dv_t: A_t_inv * (dE_1 + dY * v_star)}, "v_t−v = A_t⁻¹((b_t−b) + (A−A_t)v)")
)


def with_ball_constants(proof: Chain) -> Chain:
    """Add the last links of the proof, after the error of the linear solver is bounded by ‖v_t‖ or ‖∇₁E(w_t)‖."""
    return (
        proof.replacing("solutions by inverses", {v_star: A_inv * g_star, v_t: A_t_inv * g_t}, "v = A⁻¹b", ("g_star",))
        .with_lipschitz_derivatives()
        .replacing("inverses", {A_inv: 1 / mu_inv, A_t_inv: 1 / mu_inv}, "‖(I−∂₁Φ)⁻¹‖ ≤ 1/μ_λ on the ball", ("mu_inv",))
        .replacing("ball", {Z_t: L_Phi, g_t: L_E, g_star: L_E}, "Lemma 2.1: ‖w_t‖ ≤ 2D", ("L_Phi", "L_E"))
        .replacing("lower-level rate", {r_t: rho * r_0}, "Assumption 3(ii)", ("rho", "r_0"))
        .replacing("start", {r_0: D}, "w_0 = 0, so r_0 = ‖w(λ)‖ ≤ D", ("D",))
    )


CHAIN = with_ball_constants(PROOF.replacing("linear solver", {dv_kt: sigma * v_t}, "Assumption 3(iii)", ("sigma",)))

BOUND = Bound(
    name="aid",
    title="AID bound, any solvers",
    reference=Citation(GRAZZI, "Theorem 2.2", "th:gradBoundImplicit"),
    assumptions=(A1_I, A1_III, A1_IV, A3_I, A3_II, A3_III, START_AT_ZERO),
    formula=LOWER * rho + UPPER * sigma,
    methods=("aid-fp", "aid-cg", "aid-cgn", "exact"),
    conditions=(STAYS_IN_BALL,),
    chain=CHAIN,
)

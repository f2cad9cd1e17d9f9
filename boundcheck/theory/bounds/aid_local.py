"""AID with local constants, for any pair of solvers.

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁W + (ν₂ + ν₁W)‖v_t‖) r_t + ‖∂₂Φ(w_t)ᵀ(v_{t,k}−v_t)‖

All constants on B(w*, r_0·max ρ). Quantities that are not measured are replaced by bounds: r_t by ρ(t) r_0, ‖v_t‖ by
(g* + η₁r_t)/μ_λ, the last term by (L_Φ* + ν₂r_t)‖v_t‖σ(k) with the σ of the solver, μ_λ by 1−q. Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import A1_III, A1_IV, A3_III, LOCAL_PEAK
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.rates import CONTRACTION
from boundcheck.theory.symbols import (
    L_Phi_star,
    W,
    dE_1,
    dE_2,
    dY,
    dZ,
    error,
    eta_1,
    eta_2,
    g_star,
    mu_inv,
    nu_1,
    nu_2,
    q,
    r_0,
    r_t,
    rho,
    sigma,
    solve_error,
    v_t,
)

CHAIN = (
    Chain.from_measured(error)
    .to(
        "triangle inequality and norms of products",
        dE_2 + W * (dE_1 + dY * v_t) + dZ * v_t + solve_error,
        "∇̂f−∇f = (c_t−c) + w'ᵀ((b_t−b) + (A−A_t)v_t) + (Z_t−Z)ᵀv_t + Z_tᵀ(v_{t,k}−v_t), as Zᵀ = w'ᵀA",
        ("W",),
    )
    .with_lipschitz_derivatives()
)

BOUND = Bound(
    name="aid-local",
    title="AID bound with local constants",
    reference=Citation(BOUNDCHECK, "AID, local", "aid-local"),
    assumptions=(A1_III, A1_IV, A3_III, LOCAL_PEAK),
    formula=(eta_2 + eta_1 * W + (nu_2 + nu_1 * W) * v_t) * r_t + solve_error,
    methods=("aid-fp", "aid-cg", "aid-cgn", "exact"),
    defaults={
        r_t: rho * r_0,
        rho: CONTRACTION.expression,
        v_t: (g_star + eta_1 * r_t) / mu_inv,
        solve_error: (L_Phi_star + nu_2 * r_t) * v_t * sigma,
        mu_inv: 1 - q,
    },
    chain=CHAIN,
)

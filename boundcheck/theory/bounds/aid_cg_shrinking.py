"""AID-CG with constants that depend on the distance to w*; μ_λ and κ of the linear system hold for ‖w−w*‖ ≤ R_t.

    ‖∇̂f−∇f‖ ≤ η₂R_t + min(η₁W R_t + (ν₂R_t + δW) v + z v / T_k((κ+1)/(κ−1)), W g* + z v),
    v = (g* + η₁R_t)/μ_λ,   z = L_Φ* + ν₂R_t

with δ and the recursion for R_t of `itd-shrinking`. q, ν₁, ν₂, η₁, η₂, μ_λ and κ are the constants on the smallest ball
around w* whose radius is at least R_t and on which they are known. Unless given, μ_λ = 1−q. This bound never exceeds
`aid-cg-local`. Proof: docs/proofs.md.
"""

from sympy import Min

from boundcheck.theory.assumptions import A1_III, A1_IV, SHRINKING, SYMMETRIC, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds.itd_shrinking import BALLS, D2_PHI, DISTANCE, SHIFT, with_recursive_distance
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.rates import INVERSE_CHEBYSHEV
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.symbols import (
    R_t,
    W,
    Z_t,
    dE_1,
    dE_2,
    dY,
    dZ,
    error,
    eta_1,
    eta_2,
    g_star,
    mu_inv,
    nu_2,
    q,
    r_0,
    r_t,
    solve_error,
    v_t,
)

SOLUTION = (g_star + eta_1 * R_t) / mu_inv  # a bound on ‖v_t‖, the solution of the linear system at w_t

CHAIN = with_recursive_distance(
    Chain.from_measured(error)
    .to(
        "triangle inequality and norms of products",
        dE_2 + Min(W * (dE_1 + dY * v_t) + dZ * v_t + solve_error, Z_t * v_t + W * g_star),
        "∇̂f−∇f = (c_t−c) + w'ᵀ((b_t−b) + (A−A_t)v_t) + (Z_t−Z)ᵀv_t + Z_tᵀ(v_{t,k}−v_t) = (c_t−c) + Z_tᵀv_{t,k} − w'ᵀb, "
        "and CG from 0 has ‖v_{t,k}‖ ≤ ‖v_t‖",
        ("W", "g_star"),
    )
    .replacing(
        "Lipschitz derivatives",
        {dE_2: eta_2 * r_t, dE_1: eta_1 * r_t, dZ: nu_2 * r_t, dY: SHIFT.subs(R_t, r_t), Z_t: D2_PHI.subs(R_t, r_t)},
        "Assumptions 1(iii) and 1(iv), and ‖∂₁Φ(w_t)−∂₁Φ(w*)‖ ≤ q + q*",
        ("nu_1", "nu_2", "eta_1", "eta_2", "q", "q_star", "L_Phi_star"),
    )
).replacing(
    "CG in the energy norm",
    {v_t: SOLUTION, solve_error: D2_PHI * SOLUTION * INVERSE_CHEBYSHEV},
    "‖v_t‖ ≤ ‖b_t‖/μ_λ; ‖Zᵀe‖ ≤ ‖Z‖‖A^{−½}‖‖e‖_A, Chebyshev, ‖v_t‖_A = ‖A^{−½}b_t‖",
    ("mu_inv", "kappa", "g_star"),
)

BOUND = Bound(
    name="aid-cg-shrinking",
    title="AID-CG bound with constants of shrinking balls",
    reference=Citation(BOUNDCHECK, "CG, shrinking balls", "shrinking"),
    assumptions=(A1_III, A1_IV, SHRINKING, ZERO_SOLVE, SYMMETRIC),
    formula=eta_2 * R_t
    + Min(
        W * (eta_1 * R_t + SHIFT * SOLUTION) + nu_2 * R_t * SOLUTION + D2_PHI * SOLUTION * INVERSE_CHEBYSHEV,
        D2_PHI * SOLUTION + W * g_star,
    ),
    methods=("aid-cg",),
    defaults={mu_inv: 1 - q},
    recursion=Recursion(state=(R_t,), start=(r_0,), first=(DISTANCE,), step=(DISTANCE,), shrinking=BALLS),
    chain=CHAIN,
)

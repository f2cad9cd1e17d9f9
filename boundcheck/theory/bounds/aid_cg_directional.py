"""AID-CG with derivatives only in the directions of v* and w': these are inserted before norms are taken.

    ‖∇̂f−∇f‖ ≤ (χ + ωR_t) R_t + z (g* + η₁R_t)/(μ_λ T_k((κ+1)/(κ−1))),   z = L_Φ* + ν₂R_t

with χ and ω of `aid-fp-directional` and the recursion for R_t of `itd-shrinking`. Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import A1_III, A1_IV, SHRINKING, SYMMETRIC, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds.aid_fp_directional import AT_ITERATE, DEFAULTS, RECURSION, SOLUTION, proof_of
from boundcheck.theory.bounds.itd_shrinking import D2_PHI
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.rates import INVERSE_CHEBYSHEV

SOLVE = D2_PHI * SOLUTION * INVERSE_CHEBYSHEV

BOUND = Bound(
    name="aid-cg-directional",
    title="AID-CG bound with directional constants",
    reference=Citation(BOUNDCHECK, "AID, directional", "directional"),
    assumptions=(A1_III, A1_IV, SHRINKING, ZERO_SOLVE, SYMMETRIC),
    formula=AT_ITERATE + SOLVE,
    methods=("aid-cg",),
    defaults=DEFAULTS,
    recursion=RECURSION,
    chain=proof_of(
        SOLVE,
        "CG in the energy norm",
        "‖v_t‖ ≤ ‖b_t‖/μ_λ; ‖Zᵀe‖ ≤ ‖Z‖‖A^{−½}‖‖e‖_A, Chebyshev, ‖v_t‖_A = ‖A^{−½}b_t‖",
        ("nu_2", "eta_1", "mu_inv", "kappa", "g_star", "L_Phi_star"),
    ),
)

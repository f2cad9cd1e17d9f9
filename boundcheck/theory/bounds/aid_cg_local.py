"""AID-CG with local constants, in the energy norm: `aid-local` with the linear solve of `aid-cg-energy`.

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁W + (ν₂ + ν₁W)‖v_t‖) r_t + ‖∂₂Φ(w_t)ᵀ(v_{t,k}−v_t)‖

Unless measured, the last term is replaced by its bound (L_Φ* + ν₂r_t)(g* + η₁r_t)/(μ_λ T_k((κ+1)/(κ−1))). All constants
on B(w*, r_0·max ρ). Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import SYMMETRIC, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid_local
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.rates import INVERSE_CHEBYSHEV
from boundcheck.theory.symbols import L_Phi_star, nu_2, r_t, solve_error, v_t

LOCAL = aid_local.BOUND

BOUND = Bound(
    name="aid-cg-local",
    title="AID-CG bound with local constants, energy norm",
    reference=Citation(BOUNDCHECK, "CG, local", "cg-local"),
    assumptions=(*LOCAL.assumptions, ZERO_SOLVE, SYMMETRIC),
    formula=LOCAL.formula,
    methods=("aid-cg",),
    defaults={**LOCAL.defaults, solve_error: (L_Phi_star + nu_2 * r_t) * LOCAL.defaults[v_t] * INVERSE_CHEBYSHEV},
    chain=LOCAL.chain,
)

"""AID with known r_t = ‖w_t−w*‖, ‖v_t‖ and error of the linear solver: `aid-local` without a priori replacements.

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁W + (ν₂ + ν₁W)‖v_t‖) r_t + ‖∂₂Φ(w_t)ᵀ(v_{t,k}−v_t)‖

Constants on a ball around w* that contains w_t; any pair of solvers. Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import A1_III, A1_IV, BALL_AROUND_ITERATE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid_local
from boundcheck.theory.citation import BOUNDCHECK, Citation

BOUND = Bound(
    name="aid-path",
    title="AID bound with the distance to w* known",
    reference=Citation(BOUNDCHECK, "AID, path known", "path"),
    assumptions=(A1_III, A1_IV, BALL_AROUND_ITERATE),
    formula=aid_local.BOUND.formula,
    methods=aid_local.BOUND.methods,
    chain=aid_local.CHAIN,
)

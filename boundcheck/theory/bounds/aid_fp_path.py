"""AID-FP with known r_t = ‖w_t−w*‖ and ‖∇₁E(w_t)‖: `aid-fp-local` without its last replacements.

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁W) r_t + ‖∇₁E(w_t)‖ Δ'_k,
    Δ'_k = q^k W + (ν₂ (1−q^k)/(1−q) + ν₁W (1−q^(k−1))/(1−q)) r_t

Constants on a ball around w* that contains w_t; any lower-level solver. Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import A1_III, A1_IV, BALL_AROUND_ITERATE, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid_fp_local
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.symbols import W, eta_1, eta_2, g_t, r_t

BOUND = Bound(
    name="aid-fp-path",
    title="AID-FP bound with the distance to w* known",
    reference=Citation(BOUNDCHECK, "AID-FP, path known", "path"),
    assumptions=(A1_III, A1_IV, BALL_AROUND_ITERATE, ZERO_SOLVE),
    formula=(eta_2 + eta_1 * W) * r_t + g_t * aid_fp_local.DERIVATIVE,
    methods=("aid-fp",),
    chain=Chain(aid_fp_local.CHAIN.links[:-1]),
)

"""A posteriori bound for AID: computable from the iterates alone, with no knowledge of w*.

With ε_w = ‖w−Φ(w)‖, ε_v = ‖(I−∂₁Φ(w)ᵀ)v−∇₁E(w)‖ and δ = ε_w/(1−q) ≥ ‖w−w*‖:

    ‖∇̂f−∇f‖ ≤ (η₂ + (η₁‖∂₂Φ(w)‖ + ν₂‖∇₁E(w)‖)/(1−q) + ν₁‖∂₂Φ(w)‖‖∇₁E(w)‖/(1−q)²) δ
               + ν₂η₁/(1−q) δ² + ‖∂₂Φ(w)‖ ε_v/(1−q)

Constants on a ball around w that contains w*, such as B(w, δ). It certifies a reference hypergradient too.
Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import A1_III, A1_IV, A2
from boundcheck.theory.bound import Bound
from boundcheck.theory.reference import BOUNDCHECK, Reference
from boundcheck.theory.symbols import Z_t, eps_v, eps_w, eta_1, eta_2, g_t, nu_1, nu_2, q

DELTA = eps_w / (1 - q)

BOUND = Bound(
    name="aid-posteriori",
    title="A posteriori AID bound",
    reference=Reference(BOUNDCHECK, "a posteriori", "aid-posteriori"),
    assumptions=(A1_III, A1_IV, A2),
    formula=(eta_2 + (eta_1 * Z_t + nu_2 * g_t) / (1 - q) + nu_1 * Z_t * g_t / (1 - q) ** 2) * DELTA
    + nu_2 * eta_1 / (1 - q) * DELTA**2
    + Z_t * eps_v / (1 - q),
    methods=("aid-fp", "aid-cg", "aid-cgn"),
)

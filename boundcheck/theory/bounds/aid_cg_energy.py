"""AID-CG in the energy norm: the factor √κ of the Euclidean rate is not needed.

    ‖∇̂f−∇f‖ ≤ (c₁ + c₂/(1−q)) ρ(t) + c₃ / T_k((κ+1)/(κ−1))

‖Zᵀ(v_{t,k}−v_t)‖ ≤ ‖Z‖ ‖A^{−½}‖ ‖v_{t,k}−v_t‖_A, CG minimises the last factor, and ‖v_t‖_A = ‖A^{−½}∇₁E(w_t)‖.
Proof: docs/proofs.md.
"""

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid, aid_cg, aid_contraction
from boundcheck.theory.rates import CONTRACTION, INVERSE_CHEBYSHEV
from boundcheck.theory.reference import BOUNDCHECK, Reference
from boundcheck.theory.symbols import c_3, rho

BOUND = Bound(
    name="aid-cg-energy",
    title="AID-CG bound, energy norm",
    reference=Reference(BOUNDCHECK, "CG in the energy norm", "cg-energy"),
    assumptions=aid_cg.BOUND.assumptions,
    formula=aid_contraction.LOWER * rho + c_3 * INVERSE_CHEBYSHEV,
    methods=("aid-cg",),
    defaults={rho: CONTRACTION.expression},
    conditions=(aid.STAYS_IN_BALL,),
)

"""Value functions, E = ℓ: ITD is super-efficient, its error of second order in ‖w_t−w*‖ (Ablin et al. 2020).

    ‖∇f_t−∇f‖ ≤ L Δ'_t r_t + (ρ̂₂ + ρ̂₁W) r_t²/2

with r_t = q^t r_0 and Δ'_t as in `itd-local` unless measured. Explicit constants: docs/proofs.md.
"""

from boundcheck.theory.assumptions import A1_III, CONSTANT_START, LOCAL, VALUE_FUNCTION
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd_local
from boundcheck.theory.citation import ABLIN, Citation
from boundcheck.theory.symbols import L, W, dw, hat_rho_1, hat_rho_2, r_t

BOUND = Bound(
    name="ablin-automatic",
    title="Super-efficiency of ITD for a value function",
    reference=Citation(ABLIN, "automatic estimator", "super-efficiency"),
    assumptions=(A1_III, LOCAL, CONSTANT_START, VALUE_FUNCTION),
    formula=L * dw * r_t + (hat_rho_2 + hat_rho_1 * W) * r_t**2 / 2,
    methods=("itd",),
    defaults={r_t: itd_local.DISTANCE, dw: itd_local.DERIVATIVE},
)

"""ITD in a weighted norm: Theorem 2.1 for a momentum method, whose map on z = (w_t, w_{t−1}) contracts in ‖·‖_P.

The statement is that of `itd` with D = ‖P^½(z_0−z*)‖, L_Φ = ‖P^½∂₂Φ‖, L_E = ‖P^{−½}∇₁E‖ and η₁, ν₁, ν₂ in the P-norm;
λ-space stays Euclidean. `step_sizes.lyapunov` gives P and q_P. Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import A1_III, A1_IV, CONSTANT_START, P_NORM
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.coefficients import IN_P_NORM, coefficients_with
from boundcheck.theory.iterations import Hump
from boundcheck.theory.symbols import c_1, c_2, c_3, q, q_P

BOUND = Bound(
    name="itd-weighted",
    title="ITD bound in a weighted norm",
    reference=Citation(BOUNDCHECK, "weighted norm", "weighted-norm"),
    assumptions=(A1_III, A1_IV, P_NORM, CONSTANT_START),
    formula=itd.BOUND.formula.subs(q, q_P),
    where=coefficients_with(IN_P_NORM),
    methods=("itd",),
    shape=Hump(level=c_1 + c_3, slope=c_2, rate=q_P),
)

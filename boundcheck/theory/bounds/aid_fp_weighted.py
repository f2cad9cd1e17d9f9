"""AID-FP in a weighted norm: Theorem 2.4 for a momentum method, with the iterates and the linear system in ‖·‖_P.

The statement is that of `aid-fp` with every constant in the P-norm. Unless given, ρ(t) = q_P^t. Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import A1_III, A1_IV, P_NORM, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid, aid_fp
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.coefficients import IN_P_NORM, coefficients_with
from boundcheck.theory.iterations import Split
from boundcheck.theory.rates import CONTRACTION
from boundcheck.theory.symbols import c_1, c_2, c_3, q, q_P, rho

BOUND = Bound(
    name="aid-fp-weighted",
    title="AID-FP bound in a weighted norm",
    reference=Citation(BOUNDCHECK, "weighted norm", "weighted-norm"),
    assumptions=(A1_III, A1_IV, P_NORM, ZERO_SOLVE),
    formula=aid_fp.BOUND.formula.subs(q, q_P),
    where=coefficients_with(IN_P_NORM),
    methods=("aid-fp",),
    defaults={rho: CONTRACTION.expression.subs(q, q_P)},
    conditions=(aid.STAYS_IN_BALL,),
    takes_rates=False,
    not_run="applies only if aid-fp solves with the map of the pair (w_t, w_{t−1}); here it solves with Φ",
    shape=Split(c_1 + c_2 / (1 - q_P), c_3, cross=c_2 / (1 - q_P), rate_t=q_P, rate_k=q_P),
)

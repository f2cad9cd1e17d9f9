"""Value functions, E = ℓ: the analytic estimator ∇₂ℓ(w_t,λ) of ∇f(λ) = ∇₂ℓ(w(λ),λ) (Ablin et al. 2020).

    ‖∇₂ℓ(w_t)−∇f‖ ≤ η₂ r_t

Unless measured, r_t = q^t r_0. `ablin-automatic` shows that the error of differentiating through is of second order.
"""

from boundcheck.theory.assumptions import A1_IV, LOCAL, VALUE_FUNCTION
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd_local
from boundcheck.theory.citation import ABLIN, Citation
from boundcheck.theory.symbols import eta_2, r_t

BOUND = Bound(
    name="ablin-analytic",
    title="Analytic gradient of a value function",
    reference=Citation(ABLIN, "analytic estimator", "super-efficiency"),
    assumptions=(A1_IV, LOCAL, VALUE_FUNCTION),
    formula=eta_2 * r_t,
    defaults={r_t: itd_local.DISTANCE},
)

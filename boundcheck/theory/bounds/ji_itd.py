"""ITD bound of Ji et al. 2021 for gradient descent with α ≤ 1/L, in the constants of this project.

    (L(L+μ)/μ (1−αμ)^{t/2} + 2L_E(ρ̂₂μ + Lρ̂₁)/μ² (1−αμ)^{(t−1)/2}) r_0 + LL_E/μ (1−αμ)^t

for t ≥ 1. L bounds every second derivative of ℓ and E, and L_E bounds the gradient of E: everywhere in the paper, and
here on B(w*, r_0), which the iterates do not leave. This bound is never below `itd` with the constants that it implies
(q = 1−αμ, η₁ = η₂ = L, L_Φ = αL, D = r_0); a test shows this.
"""

from sympy import Integer

from boundcheck.theory.assumptions import A1_IV, CONSTANT_START, GRADIENT_STEP, JI_SMOOTH
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd_gd
from boundcheck.theory.citation import JI, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.symbols import L_E, L, alpha, hat_rho_1, hat_rho_2, mu, r_0, t

CONTRACTION = 1 - alpha * mu

BOUND = Bound(
    name="ji-itd",
    title="ITD bound of Ji et al.",
    reference=Citation(JI, "ITD-BiO, error of the estimate", "ITD hypergradient lemma"),
    assumptions=(A1_IV, GRADIENT_STEP, JI_SMOOTH, CONSTANT_START),
    formula=(
        L * (L + mu) / mu * CONTRACTION ** (t / 2)
        + 2 * L_E * (hat_rho_2 * mu + L * hat_rho_1) / mu**2 * CONTRACTION ** ((t - 1) / 2)
    )
    * r_0
    + L * L_E / mu * CONTRACTION**t,
    methods=("itd",),
    conditions=(Condition(alpha * L, Integer(1), "the result is for α ≤ 1/L; take a smaller step"), itd_gd.ORDERED),
    t_min=1,
)

"""AID-FP with local constants, and the first linear-solver step counted exactly.

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁W) r_t + (g* + η₁r_t) Δ'_k,
    Δ'_k = q^k W + (ν₂ (1−q^k)/(1−q) + ν₁W (1−q^(k−1))/(1−q)) r_t

All constants on B(w*, r_0·max ρ). Unless measured, r_t = ρ(t) r_0 with ρ(t) = q^t. u_{t,1} = ∂₂Φ(w_t) has no ν₁ part,
so this part counts k−1 steps. The bound is attained for every t and k by Φ = λw + b at λ = q with E = w. Proof:
docs/proofs.md.
"""

from sympy import Max

from boundcheck.theory.assumptions import A1_III, A1_IV, LOCAL_PEAK, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid_fp
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.rates import CONTRACTION
from boundcheck.theory.symbols import W, du, eta_1, eta_2, g_star, k, nu_1, nu_2, q, r_0, r_t, rho

DERIVATIVE = q**k * W + (nu_2 * GeometricSum(1 - q, k) + nu_1 * W * GeometricSum(1 - q, Max(k - 1, 0))) * r_t

CHAIN = aid_fp.PROOF.replacing(
    "derivative that FP implies",
    {du: DERIVATIVE},
    "the recursion of Proposition A.2, its first step from u_0 = 0",
    ("nu_1", "nu_2", "q", "W"),
).with_gradient_near_solution()

BOUND = Bound(
    name="aid-fp-local",
    title="AID-FP bound with local constants",
    reference=Citation(BOUNDCHECK, "AID-FP, local", "aid-fp-local"),
    assumptions=(A1_III, A1_IV, LOCAL_PEAK, ZERO_SOLVE),
    formula=(eta_2 + eta_1 * W) * r_t + (g_star + eta_1 * r_t) * DERIVATIVE,
    methods=("aid-fp",),
    defaults={r_t: rho * r_0, rho: CONTRACTION.expression},
    chain=CHAIN,
)

"""ITD through Nesterov's method on a quadratic lower level, in the Euclidean norm and without contraction.

With s = 1−1/√κ, step α = 1/L, momentum (√κ−1)/(√κ+1), w_{−1} = w_0 and frozen step sizes,

    S_t = s^t (1 + t/√κ),   S'_t = α s^(t−1) t (t+1) (3 + (t+2)/√κ) / (6 (1 + 1/√κ))
    ‖∇f_t−∇f‖ ≤ (η₂ + η₁W) S_t r_0 + (g* + η₁S_t r_0) (S_t W + S'_t ρ̂₂ r_0)

where w_t−w* = P_t(H)(w_0−w*). S_t is the exact supremum of |P_t| on [μ, L], and S'_t that of |P_t'|; both are attained
at μ. Constants on B(w*, r_0). Proof: docs/proofs.md.
"""

from sympy import Max, sqrt

from boundcheck.theory.assumptions import A1_IV, CONSTANT_START, LOCAL_PEAK, NESTEROV_STEPS, QUADRATIC
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import heavy_ball
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.rates import NESTEROV, S_NESTEROV
from boundcheck.theory.symbols import S_t, alpha, dS_t, kappa, s, t

WHERE = {
    S_t: NESTEROV.expression.subs(S_NESTEROV, s),
    dS_t: alpha * s ** Max(t - 1, 0) * t * (t + 1) * (3 + (t + 2) / sqrt(kappa)) / (6 * (1 + 1 / sqrt(kappa))),
    s: S_NESTEROV,
}

BOUND = Bound(
    name="nesterov",
    title="ITD bound for Nesterov's method on quadratics",
    reference=Citation(BOUNDCHECK, "Nesterov", "nesterov"),
    assumptions=(A1_IV, QUADRATIC, NESTEROV_STEPS, LOCAL_PEAK, CONSTANT_START),
    formula=heavy_ball.POLYNOMIAL_METHOD,
    where=WHERE,
    methods=("itd",),
    chain=heavy_ball.proof(WHERE),
)

"""ITD with the local rate: the recursion of the proof, evaluated step by step with q* = ‖∂₁Φ(w*)‖.

    r_{t+1} = min(q, q* + ν₁r_t/2) r_t,   Δ'_{t+1} = min(q, q* + ν₁r_t) Δ'_t + (ν₂ + ν₁W) r_t
    ‖∇f_t−∇f‖ ≤ (η₂ + η₁W) r_t + (g* + η₁r_t) Δ'_t

from r_0 and Δ'_0 = W; the first step, from w_0' = 0, is Δ'_1 = q*W + ν₂r_0. The rate tends to q*, while the closed
forms keep q. Constants on B(w*, r_0). Proof: docs/proofs.md.
"""

from sympy import Min

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd_local
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.symbols import Delta_t, W, eta_1, eta_2, g_star, nu_1, nu_2, q, q_star, r_0, r_t

DISTANCE = Min(q, q_star + nu_1 * r_t / 2) * r_t

BOUND = Bound(
    name="itd-recursive",
    title="ITD bound with the local rate",
    reference=Citation(BOUNDCHECK, "ITD, recursive", "itd-recursive"),
    assumptions=itd_local.BOUND.assumptions,
    formula=(eta_2 + eta_1 * W) * r_t + (g_star + eta_1 * r_t) * Delta_t,
    methods=("itd",),
    recursion=Recursion(
        state=(r_t, Delta_t),
        start=(r_0, W),
        first=(DISTANCE, q_star * W + nu_2 * r_0),
        step=(DISTANCE, Min(q, q_star + nu_1 * r_t) * Delta_t + (nu_2 + nu_1 * W) * r_t),
    ),
)

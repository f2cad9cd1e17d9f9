"""AID-FP with constants that depend on the distance to w*; the adjoint iterations need them for ‖w−w*‖ ≤ R_t only.

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁W) R_t + (g* + η₁R_t) Δ'_k,   Δ'_k = min(a, b, W + zS_k),
    a = σ^k W + ν₂R_t S_k + δW S_{k−1},   b = q*^k W + ν₂R_t S*_k + δzS_{k−1}S*_{k−1},
    z = L_Φ* + ν₂R_t,   S_k = (1−σ^k)/(1−σ),   S*_k = (1−q*^k)/(1−q*)

with σ, δ and the recursion for R_t of `itd-shrinking`. q, ν₁, ν₂, η₁ and η₂ are the constants on the smallest ball
around w* whose radius is at least R_t and on which they are known. This bound never exceeds `aid-fp-local`. Proof:
docs/proofs.md.
"""

from sympy import Max, Min

from boundcheck.theory.assumptions import A1_III, A1_IV, SHRINKING, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid_fp
from boundcheck.theory.bounds.itd_shrinking import BALLS, D2_PHI, DISTANCE, SHIFT, SLOPE, with_recursive_distance
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.symbols import (
    R_t,
    W,
    du,
    eta_1,
    eta_2,
    g_star,
    k,
    nu_1,
    nu_2,
    q,
    q_star,
    r_0,
)

GAP = Max(1 - q, 1 - q_star - nu_1 * R_t)  # 1−σ
ALL, BUT_ONE = (GeometricSum(GAP, steps) for steps in (k, Max(k - 1, 0)))
STAR, STAR_BUT_ONE = (GeometricSum(1 - q_star, steps) for steps in (k, Max(k - 1, 0)))
DERIVATIVE = Min(
    SLOPE**k * W + nu_2 * R_t * ALL + SHIFT * W * BUT_ONE,
    q_star**k * W + nu_2 * R_t * STAR + SHIFT * D2_PHI * BUT_ONE * STAR_BUT_ONE,
    W + D2_PHI * ALL,
)

CHAIN = with_recursive_distance(
    aid_fp.PROOF.with_gradient_near_solution().replacing(
        "derivative that FP implies",
        {du: DERIVATIVE},
        "the recursion of Proposition A.2 with the constants of ‖w−w*‖ ≤ R_t, its first step from u_0 = 0",
        ("nu_1", "nu_2", "q", "q_star", "W", "L_Phi_star"),
    )
)

BOUND = Bound(
    name="aid-fp-shrinking",
    title="AID-FP bound with constants of shrinking balls",
    reference=Citation(BOUNDCHECK, "AID-FP, shrinking balls", "shrinking"),
    assumptions=(A1_III, A1_IV, SHRINKING, ZERO_SOLVE),
    formula=(eta_2 + eta_1 * W) * R_t + (g_star + eta_1 * R_t) * DERIVATIVE,
    methods=("aid-fp",),
    recursion=Recursion(state=(R_t,), start=(r_0,), first=(DISTANCE,), step=(DISTANCE,), shrinking=BALLS),
    chain=CHAIN,
)

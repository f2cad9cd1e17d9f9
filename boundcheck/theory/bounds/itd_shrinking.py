"""ITD with constants that depend on the distance to w*: near w* a map often contracts better than on B(w*, r_0).

    R_{t+1} = min(q̄R_t, R_ϱ + min(q, q* + ν₁(R_t+ϱ)/2) (R_t−ϱ)),   U_{t+1} = qU_t + L_Φ* + ν₂R_t,
    Δ'_{t+1} = min(σΔ'_t + δW + ν₂R_t, q*Δ'_t + δ min(U_t, W+Δ'_t) + ν₂R_t, W + U_{t+1}),
    σ = min(q, q* + ν₁R_t),   δ = min(ν₁R_t, q + q*),
    ‖∇f_t−∇f‖ ≤ (η₂ + η₁W) R_t + (g* + η₁R_t) Δ'_t

from R_0 = r_0, U_0 = 0 and Δ'_0 = W. In every line q, ν₁, ν₂, η₁ and η₂ are the constants on the smallest ball around
w* that contains ‖w−w*‖ ≤ R_t and on which they are known, and so is q̄ ≥ ‖Φ(w)−w*‖/‖w−w*‖. If q̄ is unknown, q̄ = q. ϱ
is the radius of the next smaller ball, and R_ϱ is the value of the first line for this radius. With one ball,
ϱ = R_ϱ = 0. This bound never exceeds `itd-recursive`. Proof: docs/proofs.md.
"""

from sympy import Max, Min

from boundcheck.theory.assumptions import A1_III, A1_IV, CONSTANT_START, SHRINKING
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.recursion import Recursion, Shrinking
from boundcheck.theory.symbols import (
    Delta_t,
    L_Phi_star,
    R_inner,
    R_t,
    U_t,
    W,
    dw,
    eta_1,
    eta_2,
    g_star,
    nu_1,
    nu_2,
    q,
    q_mean,
    q_star,
    r_0,
    r_inner,
    r_t,
)

BY_SHELLS = R_inner + Min(q, q_star + nu_1 * (R_t + r_inner) / 2) * Max(R_t - r_inner, 0)
DISTANCE = Min(q_mean * R_t, BY_SHELLS)
BALLS = Shrinking(R_t, r_inner, R_inner, factor=q_mean, slope=q)

SLOPE = Min(q, q_star + nu_1 * R_t)  # a bound on ‖∂₁Φ(w_t)‖
SHIFT = Min(nu_1 * R_t, q + q_star)  # a bound on ‖∂₁Φ(w_t)−∂₁Φ(w*)‖
D2_PHI = L_Phi_star + nu_2 * R_t  # a bound on ‖∂₂Φ(w_t)‖
SIZE = q * U_t + D2_PHI
DERIVATIVE = Min(
    SLOPE * Delta_t + SHIFT * W + nu_2 * R_t,
    q_star * Delta_t + SHIFT * Min(U_t, W + Delta_t) + nu_2 * R_t,
    W + SIZE,
)
STEP = (DISTANCE, DERIVATIVE, SIZE)


def with_recursive_distance(proof: Chain) -> Chain:
    """Add the link that replaces the distance r_t by the R_t of the recursion."""
    because = "the mean of ∂₁Φ between w* and w_t, over the balls on the way"
    return proof.replacing("distance", {r_t: R_t}, because, ("q", "nu_1", "q_star", "r_0"))


CHAIN = with_recursive_distance(
    Chain(itd.PROOF.links[:-1])
    .with_gradient_near_solution()
    .replacing(
        "derivative of the iterate",
        {dw: Delta_t},
        "the recursion of Proposition 2.1 with the constants of each distance",
        ("nu_1", "nu_2", "q", "q_star", "W", "L_Phi_star", "r_0"),
    )
)

BOUND = Bound(
    name="itd-shrinking",
    title="ITD bound with constants of shrinking balls",
    reference=Citation(BOUNDCHECK, "ITD, shrinking balls", "shrinking"),
    assumptions=(A1_III, A1_IV, SHRINKING, CONSTANT_START),
    formula=(eta_2 + eta_1 * W) * R_t + (g_star + eta_1 * R_t) * Delta_t,
    methods=("itd",),
    recursion=Recursion(state=(R_t, Delta_t, U_t), start=(r_0, W, 0 * W), first=STEP, step=STEP, shrinking=BALLS),
    chain=CHAIN,
)

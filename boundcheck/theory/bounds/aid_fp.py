"""Theorem 2.4 (`boundFixed`), the AID-FP bound: the linear system solved by k fixed-point iterations from 0.

    ‖∇̂f−∇f‖ ≤ (c₁ + c₂ (1−q^k)/(1−q)) ρ(t) + c₃ q^k

under Assumptions 1(i), (iii), (iv) and 2. Unless given, ρ(t) = q^t.
"""

from boundcheck.theory.assumptions import A1_I, A1_III, A1_IV, A2, A3_II, START_AT_ZERO, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid, aid_fp_derivative
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI, Citation
from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.iterations import Split
from boundcheck.theory.rates import CONTRACTION
from boundcheck.theory.symbols import (
    L_E,
    W,
    c_1,
    c_2,
    c_3,
    dE_1,
    dE_2,
    du,
    duT_g,
    error,
    eta_1,
    eta_2,
    g_t,
    k,
    q,
    r_0,
    r_t,
    rho,
    wT_dE_1,
)

# the links that this proof shares with the local bound
PROOF = (
    Chain.from_measured(error)
    .to(
        "triangle inequality",
        dE_2 + wT_dE_1 + duT_g,
        "Proposition A.1: ∇̂f = ∇₂E(w_t) + u_{t,k}ᵀ∇₁E(w_t), then as for ITD",
    )
    .replacing("norms of products", {wT_dE_1: W * dE_1, duT_g: du * g_t}, "‖Mᵀx‖ ≤ ‖M‖‖x‖", ("W",))
    .replacing(
        "Lipschitz gradients of E", {dE_2: eta_2 * r_t, dE_1: eta_1 * r_t}, "Assumption 1(iv)", ("eta_1", "eta_2")
    )
)

WITH_TRUE_W = (
    PROOF.replacing(
        "derivative that FP implies",
        {du: aid_fp_derivative.RECURSION},
        "Proposition A.2 with the true W and r_t",
        ("nu_1", "nu_2", "q", "W"),
    )
    .replacing("lower-level rate", {r_t: rho * r_0}, "Assumption 3(ii)", ("rho", "r_0"))
    .replacing("∇₁E on the ball", {g_t: L_E}, "Lemma 2.1: ‖w_t‖ ≤ 2D", ("L_E",))
)

CHAIN = WITH_TRUE_W.with_paper_constants()

BOUND = Bound(
    name="aid-fp",
    title="AID-FP bound",
    reference=Citation(GRAZZI, "Theorem 2.4", "boundFixed"),
    assumptions=(A1_I, A1_III, A1_IV, A2, A3_II, START_AT_ZERO, ZERO_SOLVE),
    formula=(c_1 + c_2 * GeometricSum(1 - q, k)) * rho + c_3 * q**k,
    methods=("aid-fp",),
    defaults={rho: CONTRACTION.expression},
    conditions=(aid.STAYS_IN_BALL,),
    shape=Split(c_1 + c_2 / (1 - q), c_3, cross=c_2 / (1 - q)),
    chain=CHAIN,
)

"""Theorem 2.1 (`boundSolver`), the ITD bound: reverse-mode differentiation of t fixed-point iterations.

    ‖∇f_t(λ)−∇f(λ)‖ ≤ (c₁ + c₂ t/q + c₃) q^t

under Assumptions 1(iii)-(iv) and 2, with w_0 = 0. The paper states it for t ≥ 1. It also holds at t = 0, and at q = 0
if c₂ (t/q) q^t is written as c₂ t q^(t−1) (errata 4).
"""

from sympy import Max

from boundcheck.theory.assumptions import A1_III, A1_IV, A2, CONSTANT_START, START_AT_ZERO
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd_derivative
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI, Citation
from boundcheck.theory.iterations import Hump
from boundcheck.theory.symbols import (
    L_E,
    W,
    c_1,
    c_2,
    c_3,
    dE_1,
    dE_2,
    dw,
    dwT_g,
    error,
    eta_1,
    eta_2,
    g_t,
    q,
    r_0,
    r_t,
    t,
    wT_dE_1,
)

# the links that this proof shares with the local bound
PROOF = (
    Chain.from_measured(error)
    .to(
        "triangle inequality",
        dE_2 + wT_dE_1 + dwT_g,
        "∇f_t−∇f = (∇₂E(w_t)−∇₂E(w*)) + w'ᵀ(∇₁E(w_t)−∇₁E(w*)) + (w_t'−w')ᵀ∇₁E(w_t)",
    )
    .replacing("norms of products", {wT_dE_1: W * dE_1, dwT_g: dw * g_t}, "‖Mᵀx‖ ≤ ‖M‖‖x‖", ("W",))
    .replacing(
        "Lipschitz gradients of E", {dE_2: eta_2 * r_t, dE_1: eta_1 * r_t}, "Assumption 1(iv)", ("eta_1", "eta_2")
    )
    .replacing("contraction", {r_t: q**t * r_0}, "Assumption 2: ‖w_t−w*‖ ≤ q^t‖w_0−w*‖", ("q", "r_0"))
)

WITH_TRUE_W = PROOF.replacing(
    "derivative of the iterate",
    {dw: itd_derivative.RECURSION},
    "Proposition 2.1 with the true W",
    ("nu_1", "nu_2", "q", "W", "r_0"),
).replacing("∇₁E on the ball", {g_t: L_E}, "Lemma 2.1: ‖w_t‖ ≤ 2D", ("L_E",))

CHAIN = WITH_TRUE_W.with_paper_constants()

BOUND = Bound(
    name="itd",
    title="ITD bound",
    reference=Citation(GRAZZI, "Theorem 2.1", "boundSolver"),
    assumptions=(A1_III, A1_IV, A2, START_AT_ZERO, CONSTANT_START),
    formula=(c_1 + c_3) * q**t + c_2 * t * q ** Max(t - 1, 0),
    methods=("itd",),
    shape=Hump(level=c_1 + c_3, slope=c_2),
    chain=CHAIN,
)

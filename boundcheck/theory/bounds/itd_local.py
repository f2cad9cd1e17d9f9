"""ITD with local constants: the proof of Theorem 2.1 without its last replacements, and without one needless term.

    ‖∇f_t−∇f‖ ≤ (η₂ + η₁W) r_t + (g* + η₁r_t) Δ'_t,   r_t = q^t r_0,
    Δ'_t = q^t W + (ν₂ t + ν₁W (t−1)) q^(t−1) r_0

All constants on B(w*, r_0). The first step starts from w_0' = 0, so the ν₁ part counts t−1 times, not t times. The
bound is attained for every t by Φ = λw + b at λ = q with E = w. Proof: docs/proofs.md.
"""

from sympy import Max

from boundcheck.theory.assumptions import A1_III, A1_IV, CONSTANT_START, LOCAL
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.symbols import W, dw, eta_1, eta_2, g_star, g_t, nu_1, nu_2, q, r_0, t

DISTANCE = q**t * r_0
STEPS = Max(t - 1, 0)
DERIVATIVE = q**t * W + (nu_2 * t * q**STEPS + nu_1 * W * STEPS * q**STEPS) * r_0

CHAIN = itd.PROOF.replacing(
    "derivative of the iterate",
    {dw: DERIVATIVE},
    "the recursion of Proposition 2.1, its first step from w_0' = 0",
    ("nu_1", "nu_2", "q", "W", "r_0"),
).replacing("∇₁E near w*", {g_t: g_star + eta_1 * DISTANCE}, "Assumption 1(iv)", ("g_star", "eta_1"))

BOUND = Bound(
    name="itd-local",
    title="ITD bound with local constants",
    reference=Citation(BOUNDCHECK, "ITD, local", "itd-local"),
    assumptions=(A1_III, A1_IV, LOCAL, CONSTANT_START),
    formula=(eta_2 + eta_1 * W) * DISTANCE + (g_star + eta_1 * DISTANCE) * DERIVATIVE,
    methods=("itd",),
    chain=CHAIN,
)

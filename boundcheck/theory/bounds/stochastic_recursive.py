"""Stochastic fixed-point iterations with a constant step: the recursion of the proof, evaluated step by step.

    M_{t+1} = (1−η(1−q))² M_t + η²(√m₁√M_t + √V*)²,   M_0 = MSE_0,   E‖w_t−w*‖² ≤ M_t

for every step η ≤ 1; Theorem 4.1 needs η ≤ 1/(1+σ₂). Without noise and with η = 1 the bound is q^{2t} MSE_0.
`stochastic_recursion.mean_square_distance` computes the bound for any steps. Proof: docs/proofs.md.
"""

from sympy import Integer, sqrt

from boundcheck.theory.assumptions import NOISE_AROUND_SOLUTION, STOCHASTIC_MAP
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.stochastic_terms import factor
from boundcheck.theory.symbols import M_t, V_star, eta, m_1, mse_0, mse_w, noise_t, q, roots_t, squares_t, t

KEPT = factor(q, eta) ** 2
STEP = KEPT * M_t + eta**2 * (sqrt(m_1) * sqrt(M_t) + sqrt(V_star)) ** 2
EACH_STEP = eta**2 * GeometricSum(eta * (1 - q) * (1 + factor(q, eta)), t)

CHAIN = (
    Chain.from_measured(mse_w)
    .to(
        "contraction",
        KEPT**t * mse_0 + noise_t,
        "‖(1−η)(w_i−w*)+η(Φ(w_i)−w*)‖ ≤ (1−η(1−q))‖w_i−w*‖, and the noise of a draw has mean 0 given w_i",
        ("q", "mse_0"),
    )
    .replacing(
        "noise",
        {noise_t: V_star * EACH_STEP + 2 * sqrt(V_star) * sqrt(m_1) * roots_t + m_1 * squares_t},
        "√V[Φ̂(w)] ≤ √V* + √m₁‖w−w*‖, and Minkowski's inequality for the mean over w_i",
        ("V_star", "m_1"),
    )
    .to("recursion", M_t, "E‖w_i−w*‖² ≤ M_i, with which a step grows", ("mse_0", "q", "V_star", "m_1"))
)

BOUND = Bound(
    name="stochastic-recursive",
    title="Stochastic fixed-point iterations, any constant step",
    reference=Citation(BOUNDCHECK, "stochastic iterations, recursive", "stochastic-recursive"),
    assumptions=(STOCHASTIC_MAP, NOISE_AROUND_SOLUTION),
    formula=M_t,
    bounds=mse_w,
    methods=("sid", "neumann"),
    conditions=(Condition(eta, Integer(1), "a step above 1 leaves the segment from w_i to Φ̂(w_i); take η up to 1"),),
    recursion=Recursion(state=(M_t,), start=(mse_0,), first=(STEP,), step=(STEP,)),
    chain=CHAIN,
)

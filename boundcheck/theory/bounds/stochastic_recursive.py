"""Stochastic fixed-point iterations with a constant step, the recursion of the proof run as it stands.

    M_{t+1} = (1−η(1−q))² M_t + η²(√m₁√M_t + √V*)²,   M_0 = MSE_0,   E‖w_t−w*‖² ≤ M_t

for every step up to 1, where Theorem 4.1 needs η ≤ 1/(1+σ₂). Without noise and with η = 1 it is q^{2t} MSE_0.
`stochastic_recursion.mean_square_distance` takes any steps. Proof: docs/proofs.md.
"""

from sympy import Integer, sqrt

from boundcheck.theory.assumptions import NOISE_AROUND_SOLUTION, STOCHASTIC_MAP
from boundcheck.theory.bound import Bound
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.stochastic_terms import factor
from boundcheck.theory.symbols import M_t, V_star, eta, m_1, mse_0, mse_w, q

STEP = factor(q, eta) ** 2 * M_t + eta**2 * (sqrt(m_1) * sqrt(M_t) + sqrt(V_star)) ** 2

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
)

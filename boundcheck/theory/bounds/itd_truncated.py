"""Truncated ITD: back-propagation only through the last K of t steps.

    ‖g−∇f‖ ≤ (c₁ + c₂ K/q) q^t + c₃ q^K

K = t is ITD (the default), K = 1 is one-step differentiation. Proof: docs/proofs.md.
"""

from sympy import Max

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.symbols import K, c_1, c_2, c_3, q, t

BOUND = Bound(
    name="itd-truncated",
    title="Truncated ITD bound",
    reference=Citation(BOUNDCHECK, "truncated ITD", "itd-truncated"),
    assumptions=itd.BOUND.assumptions,
    formula=c_1 * q**t + c_2 * K * q ** Max(t - 1, 0) + c_3 * q**K,
    methods=("itd-truncated",),
    defaults={K: t},
    conditions=(Condition(K, t, "no more steps can be differentiated through than were made; take K ≤ t"),),
)

"""One-step differentiation: truncated ITD with K = 1, t ≥ 1.

    ‖g−∇f‖ ≤ (c₁ + c₂/q) q^t + c₃ q

c₃q remains for every t: this is the price of storing a single step.
"""

from sympy import Integer

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd_truncated
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.symbols import K

BOUND = Bound(
    name="itd-one-step",
    title="One-step differentiation bound",
    reference=Citation(BOUNDCHECK, "truncated ITD at K = 1", "itd-truncated"),
    assumptions=itd_truncated.BOUND.assumptions,
    formula=itd_truncated.BOUND.formula.subs(K, Integer(1)),
    methods=("itd-truncated",),
    t_min=1,
    only_k=1,
)

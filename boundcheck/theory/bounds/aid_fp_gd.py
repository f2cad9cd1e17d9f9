"""Appendix B (`appB`): the AID-FP bound for gradient descent, Φ = w − α(λ)∇₁ℓ(w,λ).

Theorem 2.4 with the q, ν₁, ν₂ and L_Φ of `itd-gd`; L_Φ at w(λ) is enough because AID-FP uses it only to bound
‖w'(λ)‖ (errata 1). Unless given, ρ(t) = q^t.
"""

from sympy import Integer

from boundcheck.theory.assumptions import GRADIENT_STEP
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid, aid_fp, itd_gd
from boundcheck.theory.citation import GRAZZI, Citation
from boundcheck.theory.iterations import Split
from boundcheck.theory.rates import CONTRACTION
from boundcheck.theory.symbols import c_1, c_2, c_3, gap, grad_alpha, q, rho

BOUND = Bound(
    name="aid-fp-gd",
    title="AID-FP bound for gradient descent",
    reference=Citation(GRAZZI, "appendix B", "appB"),
    assumptions=(*aid_fp.BOUND.assumptions, GRADIENT_STEP),
    formula=aid_fp.BOUND.formula.subs(1 - q, gap),
    where=itd_gd.WHERE,
    methods=("aid-fp",),
    defaults={rho: itd_gd.BOUND.expand(CONTRACTION.expression), grad_alpha: Integer(0)},
    shape=Split(c_1 + c_2 / gap, c_3, cross=c_2 / gap),
    conditions=(itd_gd.CONTRACTS, itd_gd.ORDERED, aid.STAYS_IN_BALL),
    chain=aid_fp.WITH_TRUE_W.with_gradient_step(),
)

"""Appendix B (`appB`): the AID-FP bound for gradient descent, Φ = w − α(λ)∇₁ℓ(w,λ).

Theorem 2.4 with the q, ν₁, ν₂ and L_Φ of `itd-gd`; L_Φ at w(λ) is enough because AID-FP uses it only to bound
‖w'(λ)‖ (errata 1). Unless given, ρ(t) = q^t.
"""

from sympy import Integer

from boundcheck.theory.assumptions import GRADIENT_STEP
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid, aid_fp, itd_gd
from boundcheck.theory.rates import CONTRACTION
from boundcheck.theory.reference import GRAZZI, Reference
from boundcheck.theory.symbols import grad_alpha, rho

BOUND = Bound(
    name="aid-fp-gd",
    title="AID-FP bound for gradient descent",
    reference=Reference(GRAZZI, "appendix B", "appB"),
    assumptions=(*aid_fp.BOUND.assumptions, GRADIENT_STEP),
    formula=aid_fp.BOUND.formula,
    where=itd_gd.WHERE,
    methods=("aid-fp",),
    defaults={rho: itd_gd.BOUND.expand(CONTRACTION.expression), grad_alpha: Integer(0)},
    shape=aid_fp.BOUND.shape,
    conditions=(itd_gd.CONTRACTS, itd_gd.ORDERED, aid.STAYS_IN_BALL),
)

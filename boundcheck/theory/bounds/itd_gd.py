"""Appendix B (`appB`): the ITD bound for gradient descent, Φ = w − α(λ)∇₁ℓ(w,λ).

    q = max(1−αμ, αL−1),  ν₁ = αρ̂₁,  ν₂ = L‖∇α‖ + αρ̂₂,  L_Φ = αL_ℓ with ‖∇²₂₁ℓ(w(λ),λ)‖ ≤ L_ℓ

in Theorem 2.1. With a frozen step size ‖∇α‖ = 0 (errata 6). The general AID bound has no such form (errata 1).
"""

from sympy import Integer

from boundcheck.theory.assumptions import GRADIENT_STEP
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd
from boundcheck.theory.citation import GRAZZI, Citation
from boundcheck.theory.coefficients import GRADIENT_DESCENT, coefficients_with
from boundcheck.theory.condition import Condition
from boundcheck.theory.symbols import L, L_Phi, alpha, gap, grad_alpha, mu, nu_1, nu_2, q

CONTRACTS = Condition(
    alpha * L, Integer(2), "gradient descent is not a contraction; take α below 2/L, best 2/(μ+L)", strict=True
)
ORDERED = Condition(mu, L, "the strong convexity constant cannot exceed the smoothness constant; check mu and L")

# c₁, c₂, c₃ of appendix B; q and 1−q are separate symbols, because 1−q would cancel for small α
WHERE = {
    **coefficients_with({1 - q: gap, **{x: GRADIENT_DESCENT[x] for x in (nu_1, nu_2, L_Phi)}}),
    gap: GRADIENT_DESCENT[gap],
    q: GRADIENT_DESCENT[q],
}

BOUND = Bound(
    name="itd-gd",
    title="ITD bound for gradient descent",
    reference=Citation(GRAZZI, "appendix B", "appB"),
    assumptions=(*itd.BOUND.assumptions, GRADIENT_STEP),
    formula=itd.BOUND.formula,
    methods=("itd",),
    where=WHERE,
    defaults={grad_alpha: Integer(0)},
    conditions=(CONTRACTS, ORDERED),
    shape=itd.BOUND.shape,
    chain=itd.WITH_TRUE_W.with_gradient_step(),
)

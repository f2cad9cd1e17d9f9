"""AID with the linear system solved exactly (Ghadimi and Wang 2018): Theorem 2.2 at σ(k) = 0.

    ‖∇̂f−∇f‖ ≤ (η₂ + η₁L_Φ/μ_λ + ν₂L_E/μ_λ + ν₁L_ΦL_E/μ_λ²) D ρ(t)

Unless given, μ_λ = 1−q and ρ(t) = q^t.
"""

from sympy import Integer

from boundcheck.theory.assumptions import A1_I, A1_III, A1_IV, A2, A3_I, A3_II, START_AT_ZERO
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid
from boundcheck.theory.citation import GHADIMI, Citation
from boundcheck.theory.iterations import Hump
from boundcheck.theory.rates import CONTRACTION, EXACT_SOLVE
from boundcheck.theory.symbols import dv_kt, mu_inv, q, rho, sigma

BOUND = Bound(
    name="ghadimi-wang",
    title="AID bound with an exact linear solve",
    reference=Citation(GHADIMI, "Lemma 2.2", "th:gradBoundImplicit at sigma = 0"),
    assumptions=(A1_I, A1_III, A1_IV, A3_I, A3_II, START_AT_ZERO, A2),
    formula=aid.BOUND.formula.subs(sigma, EXACT_SOLVE.expression),
    methods=("exact",),
    defaults={rho: CONTRACTION.expression, mu_inv: 1 - q},
    conditions=(aid.STAYS_IN_BALL,),
    shape=Hump(level=aid.LOWER, slope=Integer(0)),
    chain=aid.with_ball_constants(aid.PROOF.replacing("linear solver", {dv_kt: Integer(0)}, "solved exactly")),
)

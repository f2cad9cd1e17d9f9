"""Proposition A.2 (`lm:diffFix`): the derivative u_{t,k} that AID-FP implies, with u_{t,0} = 0.

    ‖u_{t,k}−w'‖ ≤ (ν₂ + ν₁L_Φ/(1−q)) D ρ(t) (1−q^k)/(1−q) + L_Φ/(1−q) q^k

By Proposition A.1 (`thm:20200124a`), u_{t,k}ᵀ∇₁E(w_t) = ∂₂Φ(w_t)ᵀv_{t,k}.
"""

from boundcheck.theory.assumptions import A1_I, A1_III, A2, A3_II, START_AT_ZERO, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI, Citation
from boundcheck.theory.coefficients import W_PAPER
from boundcheck.theory.iterations import Split
from boundcheck.theory.lemmas import sequence_constant
from boundcheck.theory.rates import CONTRACTION
from boundcheck.theory.symbols import D, W, du, k, nu_1, nu_2, q, r_0, r_t, rho

# the bound of the lemma, before W and r_t are bounded
RECURSION = sequence_constant(k, start=W, forcing=(nu_2 + nu_1 * W) * r_t)

CHAIN = (
    Chain.from_measured(du)
    .to(
        "recursion",
        RECURSION,
        "subtract the fixed-point equations of u_{t,k} and w', Lemma A.1 (i)",
        ("nu_1", "nu_2", "q", "W"),
    )
    .replacing("lower-level rate", {r_t: rho * r_0}, "Assumption 3(ii)", ("rho", "r_0"))
    .with_paper_constants()
)

P_D = (nu_2 + nu_1 * W_PAPER) * D

BOUND = Bound(
    name="aid-fp-derivative",
    title="Derivative implied by AID-FP",
    reference=Citation(GRAZZI, "Proposition A.2", "lm:diffFix"),
    assumptions=(A1_I, A1_III, A2, A3_II, START_AT_ZERO, ZERO_SOLVE),
    formula=RECURSION.subs({W: W_PAPER, r_t: rho * D}),
    bounds=du,
    methods=("aid-fp",),
    defaults={rho: CONTRACTION.expression},
    conditions=(aid.STAYS_IN_BALL,),
    shape=Split(P_D / (1 - q), W_PAPER, cross=P_D / (1 - q)),
    chain=CHAIN,
)

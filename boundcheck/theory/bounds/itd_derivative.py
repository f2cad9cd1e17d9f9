"""Proposition 2.1 (`lm:boundDiff`): the distance of the derivative of the t-th iterate from w'(λ).

    ‖w_t'−w'‖ ≤ (ν₂ + ν₁L_Φ/(1−q)) D t q^(t−1) + L_Φ/(1−q) q^t

under Assumptions 1(iii) and 2, with w_0 = 0. Proof: Δ'_t ≤ qΔ'_{t−1} + pr_{t−1} with p = ν₂ + ν₁W, and
Lemma A.1 (ii) (`lem:sequence`).
"""

from boundcheck.theory.assumptions import A1_III, A2, CONSTANT_START, START_AT_ZERO
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import GRAZZI, Citation
from boundcheck.theory.coefficients import W_PAPER
from boundcheck.theory.iterations import Hump
from boundcheck.theory.lemmas import sequence_shrinking
from boundcheck.theory.symbols import D, W, dw, nu_1, nu_2, r_0, t

# the bound of the lemma, before W and r_0 are bounded
RECURSION = sequence_shrinking(t, start=W, forcing=(nu_2 + nu_1 * W) * r_0)

CHAIN = (
    Chain.from_measured(dw)
    .to(
        "recursion",
        RECURSION,
        "differentiate both fixed-point equations, Assumptions 1(iii) and 2, Lemma A.1 (ii)",
        ("nu_1", "nu_2", "q", "W", "r_0"),
    )
    .with_paper_constants()
)

BOUND = Bound(
    name="itd-derivative",
    title="Derivative of the unrolled iterate",
    reference=Citation(GRAZZI, "Proposition 2.1", "lm:boundDiff"),
    assumptions=(A1_III, A2, START_AT_ZERO, CONSTANT_START),
    formula=RECURSION.subs({W: W_PAPER, r_0: D}),
    bounds=dw,
    methods=("itd",),
    shape=Hump(level=W_PAPER, slope=(nu_2 + nu_1 * W_PAPER) * D),
    chain=CHAIN,
)

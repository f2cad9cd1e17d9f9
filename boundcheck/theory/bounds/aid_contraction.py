"""Theorem 2.2 (`th:gradBoundImplicit`), second part: the AID bound when Φ(·,λ) is a contraction.

    ‖∇̂f−∇f‖ ≤ (c₁ + c₂/(1−q)) ρ(t) + c₃ σ(k)

This is the general bound at μ_λ = 1−q. Unless given, ρ(t) = q^t. σ is the rate of the linear solver; give it as numbers
or as a rate by name.
"""

from boundcheck.theory.assumptions import A1_I, A1_III, A1_IV, A2, A3_II, A3_III, START_AT_ZERO
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid
from boundcheck.theory.citation import GRAZZI, Citation
from boundcheck.theory.rates import CONTRACTION
from boundcheck.theory.symbols import c_1, c_2, c_3, mu_inv, q, rho, sigma

LOWER = c_1 + c_2 / (1 - q)

CHAIN = aid.CHAIN.replacing("contraction", {mu_inv: 1 - q}, "Lemma 2.2: μ_λ ≥ 1−q", ("q",))

BOUND = Bound(
    name="aid-contraction",
    title="AID bound under contraction",
    reference=Citation(GRAZZI, "Theorem 2.2, second part", "eq:boundInvertibleContraction"),
    assumptions=(A1_I, A1_III, A1_IV, A2, A3_II, A3_III, START_AT_ZERO),
    formula=LOWER * rho + c_3 * sigma,
    methods=("aid-fp", "aid-cg", "aid-cgn", "exact"),
    defaults={rho: CONTRACTION.expression},
    conditions=(aid.STAYS_IN_BALL,),
    chain=CHAIN,
)

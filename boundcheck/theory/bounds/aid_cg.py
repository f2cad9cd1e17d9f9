"""AID with conjugate gradient: Theorem 2.2 (`th:gradBoundImplicit`) with the rate `eq:conjrate`.

    ‖∇̂f−∇f‖ ≤ (c₁ + c₂/(1−q)) ρ(t) + c₃ · 2√κ ((√κ−1)/(√κ+1))^k

for symmetric ∂₁Φ(w_t,λ); κ bounds the condition number of I−∂₁Φ(w_t,λ). κ = (1+q)/(1−q) is always such a bound, and
κ = L/μ for gradient descent. Unless given, ρ(t) = q^t.
"""

from sympy import sqrt

from boundcheck.theory.assumptions import SYMMETRIC, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid, aid_contraction
from boundcheck.theory.citation import GRAZZI, Citation
from boundcheck.theory.iterations import Split
from boundcheck.theory.rates import CG, CONTRACTION, S
from boundcheck.theory.symbols import c_3, kappa, rho, sigma

CHAIN = aid_contraction.CHAIN.replacing("rate of CG", {sigma: CG.expression}, "σ(k) = 2√κ((√κ−1)/(√κ+1))^k", ("kappa",))

BOUND = Bound(
    name="aid-cg",
    title="AID-CG bound",
    reference=Citation(GRAZZI, "Theorem 2.2 with the rate of CG", "eq:conjrate"),
    assumptions=(*aid_contraction.BOUND.assumptions, SYMMETRIC, ZERO_SOLVE),
    formula=aid_contraction.BOUND.formula.subs(sigma, CG.expression),
    methods=("aid-cg",),
    defaults={rho: CONTRACTION.expression},
    conditions=(aid.STAYS_IN_BALL,),
    shape=Split(aid_contraction.LOWER, 2 * sqrt(kappa) * c_3, rate_k=S),
    chain=CHAIN,
    solver_rate=CG,
)

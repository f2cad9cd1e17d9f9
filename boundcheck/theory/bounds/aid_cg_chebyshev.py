"""AID-CG with the Chebyshev rate: σ(k) = min(1, √κ/T_k((κ+1)/(κ−1))).

    ‖∇̂f−∇f‖ ≤ (c₁ + c₂/(1−q)) ρ(t) + c₃ min(1, √κ/T_k((κ+1)/(κ−1)))

T_k is the Chebyshev polynomial; `eq:conjrate` follows from 1/T_k ≤ 2((√κ−1)/(√κ+1))^k. The minimum with 1 holds because
the error of CG from 0 never grows. If the number m of distinct eigenvalues is known, ``sigma="cg-finite"`` in
aid-contraction gives 0 from k = m on (in exact arithmetic). Proof: docs/proofs.md.
"""

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid, aid_cg, aid_contraction
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.rates import CG_CHEBYSHEV, CONTRACTION
from boundcheck.theory.symbols import rho, sigma

BOUND = Bound(
    name="aid-cg-chebyshev",
    title="AID-CG bound, Chebyshev rate",
    reference=Citation(BOUNDCHECK, "Chebyshev rate of CG", "cg-chebyshev"),
    assumptions=aid_cg.BOUND.assumptions,
    formula=aid_contraction.BOUND.formula.subs(sigma, CG_CHEBYSHEV.expression),
    methods=("aid-cg",),
    defaults={rho: CONTRACTION.expression},
    conditions=(aid.STAYS_IN_BALL,),
    chain=aid_contraction.CHAIN.replacing(
        "rate of CG", {sigma: CG_CHEBYSHEV.expression}, "Chebyshev polynomials; the error never grows", ("kappa",)
    ),
    solver_rate=CG_CHEBYSHEV,
)

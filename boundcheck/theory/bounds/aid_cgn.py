"""AID with conjugate gradient on the normal equations, also for nonsymmetric ∂₁Φ.

    ‖∇̂f−∇f‖ ≤ (c₁ + c₂/(1−q)) ρ(t) + 2 c₃ ((κ−1)/(κ+1))^k

CG on AᵀAv = Aᵀb reduces the residual by the factor 2((κ−1)/(κ+1))^k, where κ = κ(A) and A = I−∂₁Φ(w_t,λ)ᵀ.
∂₂Φᵀ(v_{t,k}−v_t) is ∂₂ΦᵀA⁻¹ times the residual, so the factor κ of the Euclidean rate is not needed. κ = (1+q)/(1−q) is
always a bound; then the last term is 2c₃q^k, at twice the cost of AID-FP.
"""

from boundcheck.theory.assumptions import A1_I, A1_III, A1_IV, A2, A3_II, START_AT_ZERO, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid, aid_contraction
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.iterations import Split
from boundcheck.theory.rates import CONTRACTION, S_NORMAL
from boundcheck.theory.symbols import A_t_inv, c_3, dv_kt, eps_v, g_t, k, mu_inv, q, rho

CHAIN = aid.with_ball_constants(
    aid.PROOF.replacing("residual", {dv_kt: A_t_inv * eps_v}, "v_{t,k}−v_t = A_t⁻¹ times the residual").replacing(
        "CG on the normal equations",
        {eps_v: 2 * S_NORMAL**k * g_t},
        "CG on AᵀA minimises the residual, whose Chebyshev bound starts from ‖b_t‖",
        ("kappa",),
    )
).replacing("contraction", {mu_inv: 1 - q}, "Lemma 2.2: μ_λ ≥ 1−q", ("q",))

BOUND = Bound(
    name="aid-cgn",
    title="AID bound, CG on the normal equations",
    reference=Citation(BOUNDCHECK, "CG on the normal equations", "cgn"),
    assumptions=(A1_I, A1_III, A1_IV, A2, A3_II, START_AT_ZERO, ZERO_SOLVE),
    formula=aid_contraction.LOWER * rho + 2 * c_3 * S_NORMAL**k,
    methods=("aid-cgn",),
    defaults={rho: CONTRACTION.expression},
    conditions=(aid.STAYS_IN_BALL,),
    shape=Split(aid_contraction.LOWER, 2 * c_3, rate_k=S_NORMAL),
    chain=CHAIN,
)

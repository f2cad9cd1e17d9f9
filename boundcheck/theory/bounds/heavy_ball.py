"""ITD through optimal heavy ball on a quadratic lower level, in the Euclidean norm and without contraction.

With s = (√κ−1)/(√κ+1), step α = 4/(√L+√μ)², momentum s², w_{−1} = w_0 and frozen step sizes,

    S_t = s^t (1 + (1+s) t),   S'_t = α s^(t−1) t (t+1) (t + 2 + s(t−1)) / 6
    ‖∇f_t−∇f‖ ≤ (η₂ + η₁W) S_t r_0 + (g* + η₁S_t r_0) (S_t W + S'_t ρ̂₂ r_0)

where w_t−w* = P_t(H)(w_0−w*). S_t is the exact supremum of |P_t| on [μ, L]; it exceeds 1, with a peak of about √κ/e
(errata 3). S'_t is the exact supremum of |P_t'|. Constants on B(w*, r_0·max S_t). Proof: docs/proofs.md.
"""

from collections.abc import Mapping

from sympy import Expr, Max, Symbol

from boundcheck.theory.assumptions import A1_IV, CONSTANT_START, LOCAL_PEAK, OPTIMAL_HEAVY_BALL, QUADRATIC
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.rates import HEAVY_BALL, S
from boundcheck.theory.symbols import S_t, W, alpha, dS_t, dw, eta_1, eta_2, g_star, g_t, hat_rho_2, r_0, r_t, s, t

# for any method with w_t−w* = P_t(H)(w_0−w*), sup|P_t| = S_t and ‖DP_t‖ ≤ S'_t
POLYNOMIAL_METHOD = (eta_2 + eta_1 * W) * S_t * r_0 + (g_star + eta_1 * S_t * r_0) * (S_t * W + dS_t * hat_rho_2 * r_0)

WHERE = {
    S_t: HEAVY_BALL.expression.subs(S, s),
    dS_t: alpha * s ** Max(t - 1, 0) * t * (t + 1) * (t + 2 + s * (t - 1)) / 6,
    s: S,
}


def proof(where: Mapping[Symbol, Expr]) -> Chain:
    """The links of ITD that need no contraction, and links for the polynomial of the method and its derivative."""
    size, slope = (where[x].subs(s, where[s]) for x in (S_t, dS_t))
    return (
        Chain(itd.PROOF.links[:-1])
        .replacing(
            "polynomial of the method",
            {r_t: size * r_0},
            "w_t−w* = P_t(H)(w_0−w*) with |P_t| ≤ S_t on [μ, L]",
            ("kappa", "r_0"),
        )
        .replacing(
            "derivative of the polynomial",
            {dw: size * W + slope * hat_rho_2 * r_0},
            "‖DP_t(H)‖ ≤ S'_t, and H moves by ρ̂₂ at most",
            ("hat_rho_2", "kappa", "alpha", "W", "r_0"),
        )
        .replacing("∇₁E near w*", {g_t: g_star + eta_1 * size * r_0}, "Assumption 1(iv)", ("g_star", "eta_1"))
    )


BOUND = Bound(
    name="heavy-ball",
    title="ITD bound for heavy ball on quadratics",
    reference=Citation(BOUNDCHECK, "heavy ball", "heavy-ball"),
    assumptions=(A1_IV, QUADRATIC, OPTIMAL_HEAVY_BALL, LOCAL_PEAK, CONSTANT_START),
    formula=POLYNOMIAL_METHOD,
    where=WHERE,
    methods=("itd",),
    chain=proof(WHERE),
)

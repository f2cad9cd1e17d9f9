"""ITD with known distances along the path: the recursion of the proof with these distances instead of q^j r_0.

    ‖∇f_t−∇f‖ ≤ (η₂ + η₁W) r_t + ‖∇₁E(w_t)‖ Δ'_t,   Δ'_t = q^t W + ν₂ q^(t−1) r_0 + (ν₂ + ν₁W) P_t,
    P_t = Σ_{1≤j<t} q^(t−1−j) r_j,   r_j = ‖w_j−w*‖

The bound q^j r_0 on r_j is much too large if w_0−w* has only a small part along the slowest directions. On a quadratic,
r_j = ‖(I−αH)^j(w_0−w*)‖ is known from the spectrum before any run. Constants on B(w*, r_0). Proof: docs/proofs.md.
"""

from sympy import Max, Min

from boundcheck.theory.assumptions import A1_III, A1_IV, CONSTANT_START, LOCAL
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.symbols import W, dw, eta_1, eta_2, g_t, nu_1, nu_2, path_t, q, r_0, r_t, t

FIRST = nu_2 * Min(t, 1) * q ** Max(t - 1, 0) * r_0  # the first step starts from w_0' = 0
DERIVATIVE = q**t * W + FIRST + (nu_2 + nu_1 * W) * path_t

BOUND = Bound(
    name="itd-path",
    title="ITD bound with the distances along the path",
    reference=Citation(BOUNDCHECK, "ITD, path known", "path"),
    assumptions=(A1_III, A1_IV, LOCAL, CONSTANT_START),
    formula=(eta_2 + eta_1 * W) * r_t + g_t * DERIVATIVE,
    methods=("itd",),
    chain=Chain(itd.PROOF.links[:-1]).replacing(
        "derivative of the iterate",
        {dw: DERIVATIVE},
        "the recursion of Proposition 2.1 along the path, its first step from w_0' = 0",
        ("nu_1", "nu_2", "q", "W", "r_0"),
    ),
)

"""AID-FP with derivatives only in the directions of v* and w': these are inserted before norms are taken.

    ‖∇̂f−∇f‖ ≤ (χ + ωR_t) R_t + zσ^k (g* + η₁R_t)/μ_λ,   z = L_Φ* + ν₂R_t,   σ = min(q, q* + ν₁R_t)

with the recursion for R_t of `itd-shrinking`. For w on the ball, with A = I−∂₁Φ(w)ᵀ, w'(w) = A⁻ᵀ∂₂Φ(w) and
ρ(w) = ∇₁E(w) − Av*: χ is the Lipschitz constant from w* of w ↦ ∇₂E + ∂₂Φᵀv* + w'ᵀ(∇₁E + ∂₁Φᵀv*), and
‖(w'(w)−w')ᵀρ(w)‖ ≤ ω‖w−w*‖². Unless given, χ and ω follow from ν₁, ν₂, η₁, η₂, and μ_λ = 1−q. All constants hold on the
smallest ball around w* whose radius is at least R_t and on which they are known. Proof: docs/proofs.md.
"""

from __future__ import annotations

import sympy as sp

from boundcheck.theory.assumptions import A1_III, A1_IV, SHRINKING, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds.itd_shrinking import BALLS, D2_PHI, DISTANCE, SLOPE, with_recursive_distance
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.symbols import (
    R_t,
    W,
    chi,
    error,
    eta_1,
    eta_2,
    g_star,
    k,
    mu_inv,
    nu_1,
    nu_2,
    omega,
    q,
    r_0,
    r_t,
    solve_error,
)

AT_ITERATE = (chi + omega * R_t) * R_t  # the error with an exact linear solve at w_t
SOLUTION = (g_star + eta_1 * R_t) / mu_inv  # a bound on ‖v_t‖
OF_V = g_star / mu_inv  # a bound on ‖v*‖
DEFAULTS = {
    chi: eta_2 + eta_1 * W + (nu_2 + nu_1 * W) * OF_V,
    omega: (nu_2 + nu_1 * W) * (eta_1 + nu_1 * OF_V) / mu_inv,
    mu_inv: 1 - q,
}
RECURSION = Recursion(state=(R_t,), start=(r_0,), first=(DISTANCE,), step=(DISTANCE,), shrinking=BALLS)


def proof_of(solve: sp.Expr, name: str, because: str, uses: tuple[str, ...]) -> Chain:
    """The proof, with a given bound on the error of the linear solve."""
    at_w_t = Chain.from_measured(error).to(
        "directions at w*",
        AT_ITERATE.subs(R_t, r_t) + solve_error,
        "c_t + w_t'ᵀb_t − ∇f = G(w_t) − G(w*) + (w_t'−w')ᵀρ_t for G = ∇₂E + ∂₂Φᵀv* + w'ᵀ(∇₁E + ∂₁Φᵀv*)",
        ("chi", "omega"),
    )
    return with_recursive_distance(at_w_t).replacing(name, {solve_error: solve}, because, uses)


SOLVE = D2_PHI * SLOPE**k * SOLUTION

BOUND = Bound(
    name="aid-fp-directional",
    title="AID-FP bound with directional constants",
    reference=Citation(BOUNDCHECK, "AID, directional", "directional"),
    assumptions=(A1_III, A1_IV, SHRINKING, ZERO_SOLVE),
    formula=AT_ITERATE + SOLVE,
    methods=("aid-fp",),
    defaults=DEFAULTS,
    recursion=RECURSION,
    chain=proof_of(
        SOLVE,
        "rate of FP",
        "v_t − v_{t,k} = (∂₁Φᵀ)^k v_t, ‖∂₁Φ(w_t)‖ ≤ min(q, q* + ν₁R_t) and ‖v_t‖ ≤ ‖b_t‖/μ_λ",
        ("q", "q_star", "nu_1", "nu_2", "eta_1", "mu_inv", "g_star", "L_Phi_star"),
    ),
)

"""The only copy of c₁, c₂, c₃ of Theorem `boundSolver`, and their constants for gradient descent (`appB`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import sympy as sp

from boundcheck.theory.lemmas import W_BOUND
from boundcheck.theory.symbols import (
    D_P,
    L_E,
    L_E_P,
    D,
    L,
    L_ell,
    L_Phi,
    L_Phi_P,
    L_Phi_star,
    alpha,
    c_1,
    c_2,
    c_3,
    eta_1,
    eta_1_P,
    eta_2,
    eta_2_P,
    gap,
    grad_alpha,
    hat_rho_1,
    hat_rho_2,
    mu,
    nu_1,
    nu_1_P,
    nu_2,
    nu_2_P,
    q,
    q_P,
)

# ‖w'‖ with the constant of the paper: the supremum over the ball instead of ‖∂₂Φ(w*)‖
W_PAPER = W_BOUND.subs(L_Phi_star, L_Phi)

COEFFICIENTS: Mapping[sp.Symbol, sp.Expr] = MappingProxyType(
    {
        c_1: (eta_2 + eta_1 * W_PAPER) * D,
        c_2: (nu_2 + nu_1 * W_PAPER) * L_E * D,
        c_3: L_E * W_PAPER,
    }
)

# Φ(w,λ) = w − α(λ)∇₁ℓ(w,λ), appendix B: the values of q, 1−q, ν₁, ν₂ and L_Φ (at w*, see errata 1).
GRADIENT_DESCENT: Mapping[sp.Symbol, sp.Expr] = MappingProxyType(
    {
        q: sp.Max(1 - alpha * mu, alpha * L - 1),
        gap: sp.Min(alpha * mu, 2 - alpha * L),
        nu_1: alpha * hat_rho_1,
        nu_2: L * grad_alpha + alpha * hat_rho_2,
        L_Phi: alpha * L_ell,
    }
)

# A momentum method's map on z = (w_t, w_{t−1}): every constant in the norm ‖z‖_P.
IN_P_NORM: Mapping[sp.Symbol, sp.Expr] = MappingProxyType(
    {q: q_P, nu_1: nu_1_P, nu_2: nu_2_P, eta_1: eta_1_P, eta_2: eta_2_P, D: D_P, L_E: L_E_P, L_Phi: L_Phi_P}
)


def coefficients_with(replacements: Mapping[sp.Symbol, sp.Expr]) -> Mapping[sp.Symbol, sp.Expr]:
    """c₁, c₂, c₃ in a special case."""
    return {c: value.subs(replacements) for c, value in COEFFICIENTS.items()}

"""Terms that the bounds for minibatch hypergradients share: c₁, ‖v(w)‖, and sums squared together or term by term."""

from __future__ import annotations

import sympy as sp

from boundcheck.theory.lemmas import INVERSE, W_BOUND
from boundcheck.theory.symbols import L_E, L_Phi_star, W, eta_1, eta_2, m_1, m_2, mse_v, mse_w, nu_1, nu_2, q

# sup of ‖v(w)‖, v(w) = (I−∂₁Φ(w)ᵀ)⁻¹∇₁E(w), over the ball
LINEAR_SOLUTION = L_E * INVERSE

# ‖a(w)‖ ≤ weight·‖w−w*‖ for a(w) = ∇₂E(w) + ∂₂Φ(w)ᵀv(w) − ∇f
WEIGHT_WITH_TRUE_W = eta_2 + eta_1 * W + (nu_2 + nu_1 * W) * LINEAR_SOLUTION
WEIGHT = WEIGHT_WITH_TRUE_W.subs(W, W_BOUND)  # the paper's c₁

# σ₂ of V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖² with σ₁ = 2V*, from √V[Φ̂(w)] ≤ √V* + √m₁‖w−w*‖
NOISE_GROWTH = 2 * m_1 * INVERSE**2


def deviation(weight: sp.Expr) -> sp.Expr:
    """A bound in L² on the error of the mean of ∇̂f given w_t, by Minkowski: weight·√ρ + L_Φ√σ + ν₂√ρ√σ."""
    return weight * sp.sqrt(mse_w) + (L_Phi_star + nu_2 * sp.sqrt(mse_w)) * sp.sqrt(mse_v)


def squares(weight: sp.Expr) -> sp.Expr:
    """The sum of the squares of the three terms of `deviation`; (a+b+c)² ≤ 3(a²+b²+c²)."""
    return weight**2 * mse_w + L_Phi_star**2 * mse_v + nu_2**2 * mse_w * mse_v


# E‖(Ẑ−Z_t)ᵀv_k‖², the noise of the last draw: ‖v_k‖ is at most ‖v(w_t)‖ + √σ in L²
LAST_DRAW = m_2 * (LINEAR_SOLUTION + sp.sqrt(mse_v)) ** 2


def factor(rate: sp.Expr, step: sp.Expr) -> sp.Expr:
    """1 − step·(1−rate) for a step up to 1, as a sum of two nonnegative numbers, which does not cancel."""
    return sp.Max(1 - step, 0) + step * rate


GAP_OF_SQUARES = (1 - q) * (1 + q)  # 1−q² without cancellation

"""The lemmas behind every bound, as expressions: the two recursions and the norm of the inverse."""

from __future__ import annotations

import sympy as sp

from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.symbols import L_Phi_star, q


def sequence_constant(n: sp.Expr, start: sp.Expr, forcing: sp.Expr) -> sp.Expr:
    """Lemma A.1 (i), `lem:sequence`: u_n ≤ qu_{n−1} + τ gives q^n u_0 + τ(1−q^n)/(1−q). At q = 1: errata 10."""
    return q**n * start + forcing * GeometricSum(1 - q, n)


def sequence_shrinking(n: sp.Expr, start: sp.Expr, forcing: sp.Expr) -> sp.Expr:
    """Lemma A.1 (ii), `lem:sequence`: u_n ≤ qu_{n−1} + τ_{n−1}, τ_n ≤ qτ_{n−1} gives q^n u_0 + n q^(n−1) τ_0."""
    return q**n * start + forcing * n * q ** sp.Max(n - 1, 0)


# Lemma 2.2, `lm:optnormcontractive`: a contraction has ‖(I−∂₁Φ)⁻¹‖ ≤ 1/(1−q)
INVERSE = 1 / (1 - q)

# with `eq:gradexist_1`, w' = (I−∂₁Φ(w*))⁻¹∂₂Φ(w*)
W_BOUND = L_Phi_star * INVERSE

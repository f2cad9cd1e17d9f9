"""ρ(t) and σ(k): how fast the lower-level solver and the linear solver converge.

A bound that contains `rho` or `sigma` takes any of these rates by name. docs/proofs.md proves the worst-case factors
of the momentum methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import sympy as sp

from boundcheck.errors import UnknownNameError
from boundcheck.theory.assumptions import (
    A2,
    NESTEROV_STEPS,
    OPTIMAL_HEAVY_BALL,
    QUADRATIC,
    SYMMETRIC,
    ZERO_SOLVE,
    Assumption,
)
from boundcheck.theory.citation import BOUNDCHECK, GHADIMI, GRAZZI, Citation
from boundcheck.theory.symbols import k, kappa, m, q, rho, sigma, t


@dataclass(frozen=True)
class Rate:
    """An upper bound on the relative error after t or k steps; `stands_for` is `rho` or `sigma`."""

    name: str
    stands_for: sp.Symbol
    expression: sp.Expr
    reference: Citation
    assumptions: tuple[Assumption, ...]


# (√κ−1)/(√κ+1), (κ−1)/(κ+1) and 1−1/√κ in forms that do not cancel near κ = 1
S = (kappa - 1) / (sp.sqrt(kappa) + 1) ** 2
S_NORMAL = (kappa - 1) / (kappa + 1)
S_NESTEROV = (kappa - 1) / (kappa + sp.sqrt(kappa))

CONTRACTION = Rate(
    "contraction", rho, q**t, Citation(GRAZZI, "Assumption 3(ii) for Algorithm 1", "ass:innerconv"), (A2,)
)
HEAVY_BALL = Rate(
    "heavy-ball",
    rho,
    S**t * (1 + (1 + S) * t),
    Citation(BOUNDCHECK, "heavy ball", "heavy-ball"),
    (QUADRATIC, OPTIMAL_HEAVY_BALL),
)
NESTEROV = Rate(
    "nesterov",
    rho,
    S_NESTEROV**t * (1 + t / sp.sqrt(kappa)),
    Citation(BOUNDCHECK, "Nesterov", "nesterov"),
    (QUADRATIC, NESTEROV_STEPS),
)

FIXED_POINT = Rate("fixed-point", sigma, q**k, Citation(GRAZZI, "Theorem 2.3", "thm:fixedpoint"), (A2, ZERO_SOLVE))
CG = Rate(
    "cg",
    sigma,
    2 * sp.sqrt(kappa) * S**k,
    Citation(GRAZZI, "conjugate gradient rate", "eq:conjrate"),
    (SYMMETRIC, ZERO_SOLVE),
)
INVERSE_CHEBYSHEV = 2 * S**k / (1 + S ** (2 * k))  # 1/T_k((κ+1)/(κ−1)) without overflow
CG_CHEBYSHEV = Rate(
    "cg-chebyshev",
    sigma,
    sp.Min(1, sp.sqrt(kappa) * INVERSE_CHEBYSHEV),
    Citation(BOUNDCHECK, "Chebyshev rate of CG", "cg-chebyshev"),
    (SYMMETRIC, ZERO_SOLVE),
)
CG_FINITE = Rate(
    "cg-finite",
    sigma,
    sp.Piecewise((0, k >= m), (CG_CHEBYSHEV.expression, True)),
    Citation(BOUNDCHECK, "finite termination of CG", "cg-chebyshev"),
    (SYMMETRIC, ZERO_SOLVE),
)
CGN = Rate(
    "cgn", sigma, 2 * kappa * S_NORMAL**k, Citation(BOUNDCHECK, "CG on the normal equations", "cgn"), (ZERO_SOLVE,)
)
EXACT_SOLVE = Rate("exact-solve", sigma, sp.Integer(0), Citation(GHADIMI, "Lemma 2.2", "exact linear solve"), ())

RATES: Mapping[str, Rate] = MappingProxyType(
    {
        rate.name: rate
        for rate in (CONTRACTION, HEAVY_BALL, NESTEROV, FIXED_POINT, CG, CG_CHEBYSHEV, CG_FINITE, CGN, EXACT_SOLVE)
    }
)

# σ(k) of each method's linear solver, for bounds that do not fix the solver
SOLVER_RATES: Mapping[str, str] = MappingProxyType(
    {"aid-fp": "fixed-point", "aid-cg": "cg-chebyshev", "aid-cgn": "cgn"}
)


def rate(name: str, stands_for: sp.Symbol) -> Rate:
    """Return the rate with this name; raises UnknownNameError if it is not a rate for `stands_for`."""
    fitting = {r.name: r for r in RATES.values() if r.stands_for == stands_for}
    if name not in fitting:
        raise UnknownNameError.among(f"rate for {stands_for}", name, fitting)
    return fitting[name]

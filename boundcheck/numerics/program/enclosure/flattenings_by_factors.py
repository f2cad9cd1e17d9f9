"""The norms of the flattenings of a tensor Σ_g c_g A_g⊗B_g⊗C_g of few terms, without forming it.

The squared norm of a flattening is the largest eigenvalue of its inner products, which are those of the factors:
J = Σ_g c_g A_g(B_g⊗C_g)ᵀ has JJᵀ = Aᵀ(ccᵀ ∘ BBᵀ ∘ CCᵀ)A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import gamma, largest_eigenvalue
from boundcheck.numerics.program.enclosure.flattenings import Part
from boundcheck.numerics.program.enclosure.intervals import UP

LOST = 1e-9  # of a squared norm, which rounding may take at most
LARGEST = 1e20  # of the entries of c and of the factors
SMALLEST = 1e-60  # of Σ_g |c_g|‖A_g‖‖B_g‖‖C_g‖, beside whose square all that is too small to store is nothing


def least_norm_by_factors(parts: Sequence[Part], lengths: Sequence[int], size: float) -> float | None:
    """At least the least norm of the three flattenings; None where the tensor is quicker, or rounding too large.

    `size` is at least Σ_g |c_g|‖A_g‖‖B_g‖‖C_g‖. With G terms each inner product of rows of a factor is off by at most
    γ_k times their norms, and JJᵀ by at most γ times the square of `size`, with the sum of the lengths of all sums and
    one more for each product in place of k. A result too small to store is off by 5e-324, and what it is multiplied by
    later is at most `LARGEST`⁶ times lengths.
    """
    count = sum(len(c) for c, _ in parts)
    if 3 * count**2 * sum(lengths) > math.prod(lengths) * min(lengths):
        return None
    c = torch.cat([c for c, _ in parts])
    factors = [torch.cat([_formed(of_part[slot], len(c)) for c, of_part in parts]) for slot in range(3)]
    if not (size > SMALLEST and all(float(x.abs().max()) < LARGEST for x in (c, *factors))):
        return None
    grams = [X @ X.T for X in factors]
    rounding = 2 * gamma(sum(lengths) + 2 * count + 12) * size**2  # twice, as what is too small to store is lost too
    symmetric = all(A is B is C for _, (A, B, C) in parts)  # then all flattenings are the same
    best = math.inf
    for slot in range(1 if symmetric else 3):
        one, two = (grams[other] for other in range(3) if other != slot)
        J = c[:, None] * factors[slot]
        best = min(best, largest_eigenvalue(J.T @ (one * two) @ J))
    return math.sqrt(best + rounding) * UP if rounding <= LOST * best else None


def _formed(X: Tensor | None, count: int) -> Tensor:
    return torch.eye(count, dtype=torch.float64) if X is None else X[:, 0]

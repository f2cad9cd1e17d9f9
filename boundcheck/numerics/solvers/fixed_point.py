"""Fixed-point iteration for (I − ∂₁Φᵀ)v = b. A step takes one transposed product."""

from __future__ import annotations

from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import Product
from boundcheck.numerics.solvers.result import LinearSolution


def solve(d1phi_T: Product, b: Tensor, k: int, v0: Tensor | None, tol: float | None) -> LinearSolution:
    if v0 is None and k > 0:
        v, first = b, 1  # v_0 = 0, so the first step needs no product
    else:
        v, first = (b.new_zeros(b.shape) if v0 is None else v0), 0
    for done in range(first, k):
        v_before, v = v, d1phi_T(v) + b  # ass:fixedpointmethod
        if tol is not None and bool((v - v_before).norm() <= tol * b.norm()):
            return LinearSolution(v, done + 1, f"residual below tol = {tol:g} at k = {done + 1}")
    return LinearSolution(v, k)

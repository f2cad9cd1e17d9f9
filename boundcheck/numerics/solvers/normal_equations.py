"""Conjugate gradient on the normal equations AᵀAv = Aᵀb of Av = b with A = I − ∂₁Φᵀ (CGLS).

A may be any invertible matrix. A step takes one forward and one transposed product. The iterate minimises ‖b − Av‖ over
the Krylov space of AᵀA.
"""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import Product
from boundcheck.numerics.solvers.conjugate_gradient import SPENT
from boundcheck.numerics.solvers.krylov_error import KrylovError
from boundcheck.numerics.solvers.result import LinearSolution


def solve(
    d1phi_T: Product, d1phi: Product, b: Tensor, k: int, v0: Tensor | None, tol: float | None,
    error: KrylovError | None = None,
) -> LinearSolution:  # fmt: skip
    """Do exactly k steps. After the residual has reached rounding, further steps change nothing.

    With `tol`, stop when the residual is small enough, or has reached rounding. With `error` too, the error must also
    be small enough.
    """

    def A(v: Tensor) -> Tensor:
        return v - d1phi_T(v)

    def A_T(r: Tensor) -> Tensor:
        return r - d1phi(r)

    v = b.new_zeros(b.shape) if v0 is None else v0
    r = b.clone() if v0 is None else b - A(v)
    s = A_T(r)
    p, ss = s, s @ s
    spent = SPENT * torch.finfo(b.dtype).eps ** 2 * ss
    target = None if tol is None else tol * b.norm()
    for done in range(k):
        if target is not None and bool(r.norm() <= target) and (error is None or error.allows(v, r, p)):
            return LinearSolution(v, done, f"residual below tol = {tol:g} at k = {done}")
        if target is not None and not bool(ss > spent):
            if error is not None:
                error.end(r, p)
            return LinearSolution(v, done, f"residual rounding, but above tol = {tol:g}, at k = {done}")
        Ap = A(p)
        going = ss > spent
        step = torch.where(going, ss / (Ap @ Ap), 0)
        v = v + step * p
        r = r - step * Ap
        s = A_T(r)
        ss_before, ss = ss, s @ s
        beta = torch.where(going, ss / ss_before, 0)
        p = s + beta * p
        if error is not None:
            error.step(float(step), float(beta))
    if error is not None:
        error.end(r, p)
    return LinearSolution(v, k)

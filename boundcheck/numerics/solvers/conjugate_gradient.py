"""Conjugate gradient for (I − ∂₁Φᵀ)v = b with a symmetric positive definite matrix. A step takes one product."""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.errors import AssumptionError
from boundcheck.numerics.bilevel import symmetry
from boundcheck.numerics.bilevel.derivatives import Linearisation, Product
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.krylov_error import KrylovError
from boundcheck.numerics.solvers.result import LinearSolution

SPENT = 1e-4  # no step changes v once (‖r‖/‖b‖)² is below this times ε²: then only the recursive r gets smaller


def solve(
    d1phi_T: Product, b: Tensor, k: int, v0: Tensor | None, tol: float | None, error: KrylovError | None = None
) -> LinearSolution:
    """Do exactly k steps. After the residual has reached rounding (`spent`), further steps change nothing.

    With `tol`, stop when the residual is small enough. With `tol` and `error`, stop when the residual and the error
    are small enough, or when the residual has reached rounding.
    """

    def A(v: Tensor) -> Tensor:
        return v - d1phi_T(v)

    v = b.new_zeros(b.shape) if v0 is None else v0
    r = b.clone() if v0 is None else b - A(v)
    p, rr = r, r @ r
    spent = SPENT * torch.finfo(b.dtype).eps ** 2 * (b @ b)
    target = None if tol is None else tol * b.norm()
    curvatures, steps = [], []  # pᵀAp, which is positive for a definite A, and whether the step changed v
    for done in range(k):
        small = target is not None and bool(rr.sqrt() <= target)
        if small and (error is None or error.allows(v, r, p) or not bool(rr > spent)):
            return LinearSolution(v, done, f"residual below tol = {tol:g} at k = {done}")
        Ap = A(p)
        pAp = p @ Ap
        going = rr > spent
        curvatures.append(pAp)
        steps.append(going)
        step = torch.where(going, rr / pAp, 0)
        v = torch.addcmul(v, step, p)
        r = torch.addcmul(r, step, Ap, value=-1)
        rr_before, rr = rr, r @ r
        beta = torch.where(going, rr / rr_before, 0)
        p = torch.addcmul(r, beta, p)
        if error is not None:
            error.step(float(step), float(beta))
    if error is not None:
        error.end(r, p)
    if k:
        least = torch.where(torch.stack(steps), torch.stack(curvatures), torch.inf).min()
        if bool(least <= 0):
            raise not_definite(float(least), "pᵀ(I − ∂₁Φᵀ)p")
    return LinearSolution(v, k)


def refuse_unless_symmetric(linearised: Linearisation, problem: Problem, seed: int = 0) -> None:
    """Refuse a matrix that is not symmetric, or is found to be not positive definite, by two random products.

    The linearisation is at one point or at rows of points. For random u and v, uᵀAv − vᵀAu is zero if A is symmetric,
    and otherwise differs from zero with probability one.
    """
    name = problem.name
    if problem.symmetric is False:
        raise AssumptionError(f"{name}: ∂₁Φ is declared not symmetric, so CG does not apply; use aid-cgn")
    trial = symmetry.trial(linearised, seed)
    if not trial.is_symmetric:
        raise AssumptionError(
            f"{name}: ∂₁Φ is not symmetric (uᵀ∂₁Φv − vᵀ∂₁Φu = {float(trial.gap):.2e} for random u, v), so CG does not "
            "apply; use aid-cgn"
        )
    u, v, Yu, Yv = trial.u, trial.v, trial.Yu, trial.Yv
    along = torch.minimum((u * (u - Yu)).sum(-1).min(), (v * (v - Yv)).sum(-1).min())
    if not bool(along > 0):
        raise not_definite(float(along), f"{name}: uᵀ(I − ∂₁Φᵀ)u for a random u")


def not_definite(value: float, quantity: str) -> AssumptionError:
    return AssumptionError(
        f"{quantity} = {value:.2e} on the run, so I − ∂₁Φᵀ is not positive definite and CG does not apply; use aid-cgn"
    )

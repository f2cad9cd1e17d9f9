"""Prove the error of a hypergradient by the certificate of a better point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from boundcheck.compare.certificate import certify
from boundcheck.compare.certified_reference import certified_reference
from boundcheck.constants import Constant, Constants
from boundcheck.errors import DivergenceError
from boundcheck.numerics.bilevel import derivative_check
from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.near_solution import NearSolution, near_solution
from boundcheck.numerics.solvers import lower_level
from boundcheck.numerics.solvers.reference import reference
from boundcheck.report.accuracy import Accuracy, accuracy
from boundcheck.side import Side
from boundcheck.trust.aid_point import AidPoint, Solvers
from boundcheck.trust.tolerance import Tolerance

FINER = 1e-2  # a refinement reduces the residual of w by this factor
GOALS = (1e-3, 0.0)  # before it is certified, a point is refined until the residual of w falls to these fractions
ROUNDS = 20  # the largest number of refinements
APART = 0.5  # relative distance; a point farther from the reference than this belongs to another fixed point
CLOSE = 1e-7  # the allowed relative error of the reference itself
ANOTHER = "there are several fixed points, and this is not the one that 'exact' finds from params"
LINEAR = 1e-12  # the tolerance of the linear system at a certified point; the solve is cheap from a warm start


@dataclass(frozen=True, eq=False)
class Proof:
    """The accuracy of a hypergradient, proved by a certified hypergradient `corrected`."""

    accuracy: Accuracy
    corrected: Tensor
    eps_g: Constant
    products: int  # the products that the proof took


def prove(
    problem: Problem, solvers: Solvers, point: AidPoint, following: AidPoint, tolerance: Tolerance
) -> Proof | str:
    """Prove whether the error of a point is within the tolerance; returns the reason if nothing can be proved.

    If the problem has closed forms, the proof certifies the reference of Newton's method. Otherwise it certifies the
    next point from the program of the problem, and refines this point if its certificate does not decide.
    """
    if isinstance(problem.known, ClosedForms):
        return _by_reference(problem, point, following)
    before, proof = following.work.products, "the error is not decided"
    for goal in GOALS:
        following = _refined(problem, solvers, following, goal * float(point.excess.norm()))
        solution = following.as_solution()
        near = near_solution(problem, solution)
        eps_g = certify(problem, solution, Constants())
        if isinstance(near, str):
            proof = near
        elif eps_g is None or eps_g.side is Side.LOWER:
            proof = "the rounding of its operations is not proved" if eps_g else "the certificate is infinite"
        else:
            spent = following.work.products - before
            result = accuracy(as_array(point.value), as_array(following.value), eps_g)
            if not _is_the_solution(problem, solution.w[0], near):
                return ANOTHER
            if tolerance.allows(result) or tolerance.refuses(result):
                return Proof(result, following.value, eps_g, spent)
            proof = f"the certificate is as large as {eps_g.value:.1e}"
    return proof


def _is_the_solution(problem: Problem, w: Tensor, near: NearSolution) -> bool:
    """Whether the fixed point near w is the one that `method="exact"` finds from w_0.

    If there are several fixed points, a Newton step may lead to another one. The reference starts with steps of the
    lower level, and defines which one is meant. The proof shows that only one is within `radius` of w.
    """
    try:
        w_star = reference(quick(problem), problem.lam[None]).w[0]
    except DivergenceError:
        return False
    return float(lower_level.length(w_star - w)) <= near.fixed_point.radius + CLOSE * (1 + float(w.norm()))


def _by_reference(problem: Problem, point: AidPoint, following: AidPoint) -> Proof | str:
    certified = certified_reference(problem, None, Spend(1e-3, 0))
    if certified.eps_g is None or certified.eps_g.side is Side.LOWER:
        return "the reference is not certified"
    value, w_star = certified.solution.value[0], certified.solution.w[0]
    if float(lower_level.length(w_star - following.w)) > APART * (1 + float(w_star.norm())):
        return ANOTHER
    return Proof(accuracy(as_array(point.value), as_array(value), certified.eps_g), value, certified.eps_g, 0)


def _refined(problem: Problem, solvers: Solvers, point: AidPoint, goal: float) -> AidPoint:
    """Refine a point until the residual of w is at most the goal, or as small as rounding allows."""
    needs_solution = problem.inner_at is None  # then ∂₂Φ is compared with differences, which works at w(λ) only
    eps = torch.finfo(problem.dtype).eps
    for _ in range(ROUNDS):
        residual = float(point.excess.norm())
        close = not needs_solution or derivative_check.is_close(problem, problem.lam, point.w)
        if residual <= max(goal, 4 * eps * float(point.w.norm())) and close:
            break
        better = solvers.after(point, solvers.improved(point, FINER), max(LINEAR, 100 * eps))
        if not float(better.excess.norm()) < residual:
            break
        point = better
    if not float(point.residual_v.norm()) <= 1e3 * max(LINEAR, 100 * eps) * float(point.b.norm()):
        point = solvers.point(point, point.v, max(LINEAR, 100 * eps))
    return point


def as_array(value: Tensor) -> np.ndarray:
    """Convert a flat vector to a numpy array in float64."""
    array: np.ndarray = value.detach().double().cpu().numpy()
    return array

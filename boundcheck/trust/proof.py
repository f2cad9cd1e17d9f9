"""The error of a hypergradient, proved: by the certificate of a better point after it."""

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

FINER = 1e-2  # by which a refinement lowers the residual of w
GOALS = (1e-3, 0.0)  # shares of the residual of w down to which a point is refined before it is certified
ROUNDS = 20  # refinements at most
APART = 0.5  # relative: a point that is farther from the reference belongs to another fixed point
CLOSE = 1e-7  # relative: what the reference itself may be off
ANOTHER = "there are several fixed points, and this is not the one that 'exact' finds from params"
LINEAR = 1e-12  # the tolerance of the linear system of a point that is certified; it is cheap from a warm start


@dataclass(frozen=True, eq=False)
class Proof:
    """What a certified hypergradient shows of the error of another one."""

    accuracy: Accuracy
    corrected: Tensor
    eps_g: Constant
    products: int  # that were spent for it


def prove(
    problem: Problem, solvers: Solvers, point: AidPoint, following: AidPoint, tolerance: Tolerance
) -> Proof | str:
    """Whether the error of a point is within the tolerance; the reason in words if nothing can be proved.

    With closed forms the reference of Newton's method is certified. Otherwise the point after it is, from the program
    of the problem. It is refined where its certificate does not decide.
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
    """Is the fixed point next to w the one that `method="exact"` finds from w_0?

    A Newton step may lead to another one, if there are several. The reference starts with steps of the lower level, and
    says which one is meant; the proof says that there is one only within `radius` of w.
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
    """A point whose residual of w is at most the goal, or as small as rounding allows."""
    needs_solution = problem.inner_at is None  # then ∂₂Φ is compared with differences, which is possible at w(λ) only
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
    """A flat vector in float64, on the CPU."""
    array: np.ndarray = value.detach().double().cpu().numpy()
    return array

"""Compute a hypergradient to a tolerance, by improving points until the next point shows that one is good enough.

The next point is the first-order correction of the point before. Its lower level is about a Newton step further, so
g⁺ − g is the error of g up to second order. A certificate of the next point, from proved constants, turns this estimate
into lower and upper bounds (docs/proofs.md, "Correction").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.errors import AssumptionError, BoundcheckError, ToleranceError, UserCodeError
from boundcheck.numerics.bilevel.derivatives import DENSE, Linearisation
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.solvers import conjugate_gradient, lower_level
from boundcheck.numerics.solvers.reference import SingularError, reference
from boundcheck.trust.aid_point import TRIAL, AidPoint, Iterate, Solvers, Work
from boundcheck.trust.corrected_point import CorrectedPoint, not_known, result_of, shown_error
from boundcheck.trust.first_order import RESTS, fell, halved, sensitivity_of, stalled, unit_of_rounding
from boundcheck.trust.proof import ANOTHER, Proof, prove
from boundcheck.trust.result import AccurateHypergradient
from boundcheck.trust.same_answers import asked, same_answers
from boundcheck.trust.tolerance import Tolerance
from boundcheck.trust.way_to_solution import leads_to

FIRST = 2  # lower-level steps before the first point
FACTOR = 0.1  # the strongest reduction of the residual from one point to the next
CHECK = 0.3  # the weakest reduction, which is enough to show the error of the point before
LOOSEST = 0.3  # the tolerance of the first linear solve
WITHIN = 0.5  # a point aims at this fraction of the tolerance
SHARE = 0.3  # the linear solver may leave this fraction of the error at which a point aims
NEAR = 0.1  # the linear system is solved only at a w whose distance to w(λ) is below this fraction of its length
APPROACH = 10  # at most this many improvements of w before the first linear solve
ROUNDS = 40  # at most this many points
CONTRACTS = 0.9  # try plain iterations for v too if lower-level steps shrink at least this fast


def to_tolerance(
    problem: Problem, tolerance: Tolerance, w0: Tensor, v0: Tensor | None, most: int, with_proof: bool
) -> AccurateHypergradient:
    """Compute the hypergradient at the problem's λ to a tolerance.

    Parameters
    ----------
    problem : Problem
        The problem.
    tolerance : Tolerance
        The tolerance.
    w0 : tensor of shape (d,)
        The start of the lower level.
    v0 : tensor of shape (d,), optional
        The start of the linear solver.
    most : int
        The largest number of steps of one solver.
    with_proof : bool
        Whether to prove the error if possible.

    Returns
    -------
    AccurateHypergradient
        The hypergradient with its error.

    Raises
    ------
    ToleranceError
        If the tolerance is not reached; `best` has the best result.
    DivergenceError
        If the lower level diverges.
    InputError
        If a function of the user returns different values for the same input.
    """
    with same_answers(problem):
        try:
            return _to_tolerance(problem, tolerance, w0, v0, most, with_proof)
        except ToleranceError as error:
            if isinstance(error.best, AccurateHypergradient) and math.isfinite(error.best.relative_error):
                raise
            raise _with_cause(problem, error) from None


def _with_cause(problem: Problem, error: ToleranceError) -> ToleranceError:
    """The error, or an error with its cause if Newton's method shows that w(λ) has no derivative."""
    if problem.d <= DENSE:
        try:
            reference(quick(problem), problem.lam[None])
        except SingularError as why:
            return ToleranceError(str(why), error.best)
        except BoundcheckError:
            pass
    return error


def _to_tolerance(
    problem: Problem, tolerance: Tolerance, w0: Tensor, v0: Tensor | None, most: int, with_proof: bool,
    newton: bool = True,
) -> AccurateHypergradient:  # fmt: skip
    """Improve points by Newton steps (`newton`) or by steps of the lower level, until the tolerance is reached."""
    solvers, point = _first(problem, tolerance.rtol, w0, v0, most, newton)
    unit = unit_of_rounding(problem, point.w)
    gaps, errors, answer, sensitivity, eps_g = [], [], None, 0.0, None
    for _ in range(ROUNDS):
        following = _following(solvers, point, _aim(tolerance, point, eps_g))
        gaps.append(float(lower_level.length(following.value - point.value)))
        sensitivity = max(sensitivity, sensitivity_of(gaps[-1], point))
        estimate = shown_error(gaps, sensitivity, point, following, unit)
        eps_g = None if estimate is None else estimate.eps_g
        if estimate is not None and tolerance.allows(estimate.accuracy):
            proof = _proof(problem, solvers, point, following, tolerance) if with_proof else "no proof was asked for"
            if proof == ANOTHER and newton:  # a Newton step went too far
                return _to_tolerance(problem, tolerance, w0, v0, most, with_proof, newton=False)
            if isinstance(proof, str):
                if newton and not _is_on_the_way(solvers, w0, following):
                    return _to_tolerance(problem, tolerance, w0, v0, most, with_proof, newton=False)
                following = solvers.probed(following)
                if solvers.spectrum.unknown:
                    raise not_known(solvers, point, following)
                estimate = shown_error(gaps, sensitivity, point, following, unit)
                if estimate is not None and tolerance.allows(estimate.accuracy):
                    return result_of(solvers, estimate, following.work, 0, proof)
                eps_g = None if estimate is None else estimate.eps_g
            elif tolerance.allows(proof.accuracy):
                proved = CorrectedPoint(point, proof.corrected, proof.accuracy, proof.eps_g)
                return result_of(solvers, proved, following.work, proof.products, "")
        answer = estimate or answer
        errors.append(math.inf if estimate is None else float(estimate.accuracy.error.upper))
        if stalled(errors) and not halved(point, following):  # error estimates may lag behind: residuals count too
            break
        if estimate is None and solvers.in_vain(point, following):
            break
        point = following
    if answer is None:
        if fell(point, following):
            raise not_known(solvers, point, following)
        raise ToleranceError(
            f"{problem.name}: the lower level does not come to rest: ‖w − Φ(w)‖ = {float(point.excess.norm()):.1e} "
            f"after {point.work.products} products; check that Φ contracts at this lam, and is smooth"
        )
    best = result_of(solvers, answer, following.work, 0, "the tolerance was not reached")
    if not math.isfinite(best.relative_error):
        raise ToleranceError(
            f"{problem.name}: ∇f is 0 up to rounding, or not known better than {float(best.error.upper):.1e}, "
            "so there is no relative error; give atol",
            best,
        )
    raise ToleranceError(
        f"{problem.name}: the tolerance is not reached: the error stays at about {best.relative_error:.1e} of ‖∇f‖ "
        f"after {best.products} products, where rounding or the lower level stops it; ask for a larger rtol",
        best,
    )


def _proof(
    problem: Problem, solvers: Solvers, point: AidPoint, following: AidPoint, tolerance: Tolerance
) -> Proof | str:
    """A proof, or why there is none. If an operation of the user cannot be batched, that is a reason, not an error."""
    try:
        return prove(problem, solvers, point, following, tolerance)
    except UserCodeError as why:
        if why.__cause__ is None:  # not an error of PyTorch: a derivative or a value is wrong
            raise
        return str(why)


def _is_on_the_way(solvers: Solvers, w0: Tensor, point: AidPoint) -> bool:
    """Whether steps of the lower level lead to this point. Without a proof, only this shows which fixed point it is."""
    problem, prepared = solvers.problem, solvers.prepared
    if problem.affine or solvers.method != "aid-cg":  # one fixed point, or no Newton step
        return True
    z = problem.dynamics.start(w0)
    with torch.no_grad():
        for _ in range(FIRST):
            z = problem.psi_at(z, prepared.ready)
    return leads_to(problem, prepared, problem.dynamics.iterate(z), point.w)


@dataclass(frozen=True)
class _Aim:
    """The residuals at which the next point aims."""

    w: float  # the residual of w, relative to the residual at the present point
    v: float  # the residual of v, relative to ‖∇₁E‖


def _aim(tolerance: Tolerance, point: AidPoint, eps_g: Constant | None) -> _Aim:
    """The aim of the next point: the improvement that the tolerance needs, given the error of this point."""
    size = float(lower_level.length(point.value))
    known = size if eps_g is None else eps_g.value  # the error of the first point is unknown
    wanted = WITHIN * (tolerance.rtol * size + tolerance.atol)
    w = CHECK if eps_g is None or known == 0 else min(CHECK, max(FACTOR, wanted / known))
    implicit = float(lower_level.length(point.value - point.direct))
    v = SHARE * max(wanted, w * known) / implicit if implicit > 0 else LOOSEST
    return _Aim(w, max(min(v, LOOSEST, CHECK * point.linear_residual), 10 * torch.finfo(point.w.dtype).eps))


def _first(
    problem: Problem, rtol: float, w0: Tensor, v0: Tensor | None, most: int, newton: bool
) -> tuple[Solvers, AidPoint]:
    """The solvers that suit the problem, and AID at a w near the solution.

    Solving for v at a w far from the solution is useless, so w is improved first.
    """
    fast = quick(problem)
    prepared = Prepared(fast, fast.lam)
    z = fast.dynamics.start(w0)
    with torch.no_grad():
        states = [w0]
        for _ in range(FIRST):
            z = fast.psi_at(z, prepared.ready)
            states.append(fast.dynamics.iterate(z))
    w, lengths = states[-1], [float((b - a).norm()) for a, b in pairwise(states)]
    if not bool(torch.isfinite(w).all()):
        raise lower_level.explain_divergence(fast, prepared.ready, fast.dynamics.start(w0), FIRST)
    rate = lengths[-1] / lengths[0] if lengths[0] > 0 else 1.0
    work = Work(t=FIRST, k=0 if fast.symmetric is False else TRIAL, again=asked(problem))
    first = Solvers(fast, prepared, "aid-cg", most, newton).iterate(w, work, min(rate, 1.0))
    for method in _methods(fast, first.linearisation, rate):
        solvers = Solvers(fast, prepared, method, most, newton)
        try:
            point = solvers.point(_approach(solvers, first, w0, rtol), v0, min(rtol or LOOSEST, LOOSEST))
        except AssumptionError:  # I − ∂₁Φ is not definite here, so conjugate gradient does not apply
            continue
        if bool(torch.isfinite(point.value).all()):
            return solvers, point
    raise ToleranceError(f"{problem.name}: no linear solver gives a finite hypergradient at t = {FIRST}; change params")


def _methods(problem: Problem, linearised: Linearisation, rate: float) -> list[str]:
    """The linear solvers, in the order in which they are tried."""
    others = ["aid-fp", "aid-cgn"] if rate <= CONTRACTS else ["aid-cgn"]
    try:
        conjugate_gradient.refuse_unless_symmetric(linearised, problem)
    except AssumptionError:
        return others
    return ["aid-cg", *others]


def _approach(solvers: Solvers, current: Iterate, w0: Tensor, rtol: float) -> Iterate:
    """Improve w until it is near the solution, as estimated from the steps so far.

    The w that the tolerance needs is not known yet; this assumes that w and g have the same relative error.
    """
    near = WITHIN * min(rtol or NEAR, NEAR)
    at_rest = RESTS * torch.finfo(w0.dtype).eps
    distance = float(lower_level.length(current.excess)) / (1 - current.rate) if current.rate < 1 else math.inf
    for _ in range(APPROACH):
        scale = max(float(lower_level.length(x)) for x in (current.w, current.w - w0))
        wanted = near * scale
        if distance <= wanted or float(lower_level.length(current.excess)) <= at_rest * scale:
            break
        before, current = current, solvers.improved(current, min(CHECK, max(FACTOR, wanted / distance)))
        if solvers.in_vain(before, current):
            break
        left = float(current.excess.norm()) / float(before.excess.norm())
        distance = float(lower_level.length(current.w - before.w)) * left / (1 - left) if left < 1 else math.inf
    return current


def _following(solvers: Solvers, point: AidPoint, aim: _Aim) -> AidPoint:
    """Compute the next point."""
    improved = solvers.improved(point, aim.w)
    try:
        return solvers.after(point, improved, aim.v)
    except AssumptionError:  # I − ∂₁Φ is not definite at the new point
        return replace(solvers, method="aid-cgn").after(point, improved, aim.v)

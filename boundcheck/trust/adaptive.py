"""A hypergradient to a tolerance: better and better points, until one is good enough and the next one shows it.

The next point is the first-order correction of the one before. Its lower level is about a Newton step further on, so
g⁺ − g is the error of g up to second order. A certificate of the next point, from proved constants, makes a bound from
both sides of this estimate (docs/proofs.md, "Correction").
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
FACTOR = 0.1  # by which a point is to be better than the one before, at most
CHECK = 0.3  # at least, which is enough to show the error of the one before
LOOSEST = 0.3  # the tolerance of the first linear solve
WITHIN = 0.5  # of the tolerance: what a point aims at
SHARE = 0.3  # of the error that a point aims at: what its linear solver may leave
NEAR = 0.1  # of the length of w: v is not solved for at a w that is farther from the solution
APPROACH = 10  # improvements of w until then at most
ROUNDS = 40  # points at most
CONTRACTS = 0.9  # a lower level whose steps shrink faster than this is worth plain iterations for v too


def to_tolerance(
    problem: Problem, tolerance: Tolerance, w0: Tensor, v0: Tensor | None, most: int, with_proof: bool
) -> AccurateHypergradient:
    """The hypergradient at the problem's λ.

    Parameters
    ----------
    problem : Problem
    tolerance : Tolerance
    w0 : tensor of shape (d,)
        The start of the lower level.
    v0 : tensor of shape (d,), optional
        The start of the linear solver.
    most : int
        The steps that one solver may take.
    with_proof : bool
        Whether to prove the error where that is possible.

    Returns
    -------
    AccurateHypergradient

    Raises
    ------
    ToleranceError
        If the tolerance is not reached; `best` has what was.
    DivergenceError
        If the lower level diverges.
    InputError
        If a function of the user gives two answers to one question.
    """
    with same_answers(problem):
        try:
            return _to_tolerance(problem, tolerance, w0, v0, most, with_proof)
        except ToleranceError as error:
            if isinstance(error.best, AccurateHypergradient) and math.isfinite(error.best.relative_error):
                raise
            raise _with_cause(problem, error) from None


def _with_cause(problem: Problem, error: ToleranceError) -> ToleranceError:
    """The error, or the cause of it where Newton's method finds that w(λ) has no derivative."""
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
    """Better and better points; with `newton` by Newton steps, and otherwise by steps of the lower level."""
    solvers, point = _first(problem, tolerance.rtol, w0, v0, most, newton)
    unit = unit_of_rounding(problem, point.w)
    gaps, errors, answer, sensitivity, eps_g = [], [], None, 0.0, None
    for _ in range(ROUNDS):
        following = _following(solvers, point, _aim(tolerance, point, eps_g))
        gaps.append(float(lower_level.length(following.value - point.value)))
        sensitivity = max(sensitivity, sensitivity_of(gaps[-1], point))
        shown = shown_error(gaps, sensitivity, point, following, unit)
        eps_g = None if shown is None else shown.eps_g
        if shown is not None and tolerance.allows(shown.accuracy):
            proof = _proof(problem, solvers, point, following, tolerance) if with_proof else "no proof was asked for"
            if proof == ANOTHER and newton:  # a Newton step went too far
                return _to_tolerance(problem, tolerance, w0, v0, most, with_proof, newton=False)
            if isinstance(proof, str):
                if newton and not _is_on_the_way(solvers, w0, following):
                    return _to_tolerance(problem, tolerance, w0, v0, most, with_proof, newton=False)
                following = solvers.probed(following)
                if solvers.spectrum.unknown:
                    raise not_known(solvers, point, following)
                shown = shown_error(gaps, sensitivity, point, following, unit)
                if shown is not None and tolerance.allows(shown.accuracy):
                    return result_of(solvers, shown, following.work, 0, proof)
                eps_g = None if shown is None else shown.eps_g
            elif tolerance.allows(proof.accuracy):
                proved = CorrectedPoint(point, proof.corrected, proof.accuracy, proof.eps_g)
                return result_of(solvers, proved, following.work, proof.products, "")
        answer = shown or answer
        errors.append(math.inf if shown is None else float(shown.accuracy.error.upper))
        if stalled(errors) and not halved(point, following):  # an error that is seen late looks like no progress
            break
        if shown is None and solvers.in_vain(point, following):
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
    """A proof, or why there is none: that an operation of the user cannot be batched is no reason to end."""
    try:
        return prove(problem, solvers, point, following, tolerance)
    except UserCodeError as why:
        if why.__cause__ is None:  # not an error of PyTorch: a derivative is wrong, or a value
            raise
        return str(why)


def _is_on_the_way(solvers: Solvers, w0: Tensor, at: AidPoint) -> bool:
    """Do steps of the lower level lead to this point? Without a proof nothing else says which fixed point it is at."""
    problem, prepared = solvers.problem, solvers.prepared
    if problem.affine or solvers.method != "aid-cg":  # one fixed point, or no Newton step
        return True
    z = problem.dynamics.start(w0)
    with torch.no_grad():
        for _ in range(FIRST):
            z = problem.psi_at(z, prepared.ready)
    return leads_to(problem, prepared, problem.dynamics.iterate(z), at.w)


@dataclass(frozen=True)
class _Aim:
    """What the next point is to reach."""

    w: float  # the residual of w, in that of the point
    v: float  # the residual of v, in ‖∇₁E‖


def _aim(tolerance: Tolerance, point: AidPoint, eps_g: Constant | None) -> _Aim:
    """How much better the next point is to be: as much as the tolerance needs, by what is known of this one."""
    size = float(lower_level.length(point.value))
    known = size if eps_g is None else eps_g.value  # of a first point nothing is known
    wanted = WITHIN * (tolerance.rtol * size + tolerance.atol)
    w = CHECK if eps_g is None or known == 0 else min(CHECK, max(FACTOR, wanted / known))
    implicit = float(lower_level.length(point.value - point.direct))
    v = SHARE * max(wanted, w * known) / implicit if implicit > 0 else LOOSEST
    return _Aim(w, max(min(v, LOOSEST, CHECK * point.linear_residual), 10 * torch.finfo(point.w.dtype).eps))


def _first(
    problem: Problem, rtol: float, w0: Tensor, v0: Tensor | None, most: int, newton: bool
) -> tuple[Solvers, AidPoint]:
    """The solvers that suit the problem, and AID at a w that is near to the solution.

    A v at a w that is still far away is of no use, so w is made better first.
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
    """Linear solvers in the order in which to try them."""
    others = ["aid-fp", "aid-cgn"] if rate <= CONTRACTS else ["aid-cgn"]
    try:
        conjugate_gradient.refuse_unless_symmetric(linearised, problem)
    except AssumptionError:
        return others
    return ["aid-cg", *others]


def _approach(solvers: Solvers, at: Iterate, w0: Tensor, rtol: float) -> Iterate:
    """A w that is near to the solution, by what the steps so far promise.

    How near the tolerance asks for is not known yet. The relative error of w is taken to be that of g.
    """
    near = WITHIN * min(rtol or NEAR, NEAR)
    at_rest = RESTS * torch.finfo(w0.dtype).eps
    distance = float(lower_level.length(at.excess)) / (1 - at.rate) if at.rate < 1 else math.inf
    for _ in range(APPROACH):
        scale = max(float(lower_level.length(x)) for x in (at.w, at.w - w0))
        wanted = near * scale
        if distance <= wanted or float(lower_level.length(at.excess)) <= at_rest * scale:
            break
        before, at = at, solvers.improved(at, min(CHECK, max(FACTOR, wanted / distance)))
        if solvers.in_vain(before, at):
            break
        left = float(at.excess.norm()) / float(before.excess.norm())
        distance = float(lower_level.length(at.w - before.w)) * left / (1 - left) if left < 1 else math.inf
    return at


def _following(solvers: Solvers, point: AidPoint, aim: _Aim) -> AidPoint:
    """The next point."""
    at = solvers.improved(point, aim.w)
    try:
        return solvers.after(point, at, aim.v)
    except AssumptionError:  # not definite at the new point
        return replace(solvers, method="aid-cgn").after(point, at, aim.v)

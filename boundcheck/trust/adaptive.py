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

from boundcheck.constants import Constant, Provenance
from boundcheck.errors import AssumptionError, ToleranceError
from boundcheck.numerics.bilevel.derivatives import linearise
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.solvers import conjugate_gradient, lower_level
from boundcheck.report.accuracy import Accuracy, accuracy
from boundcheck.side import Side
from boundcheck.trust.aid_point import AidPoint, Solvers, Work
from boundcheck.trust.proof import ANOTHER, as_array, prove
from boundcheck.trust.result import AccurateHypergradient
from boundcheck.trust.tolerance import Tolerance

FIRST = 2  # lower-level steps before the first point
FACTOR = 0.1  # by which a point is to be better than the one before
LOOSEST = 0.3  # the tolerance of the first linear solve; it falls by FACTOR at every point
ROUGH = 0.5  # the tolerance of the solve that splits the error
UNITS = 8  # of rounding in a vector
ROUNDS = 40  # points at most
RESTS = 100  # units of rounding in ‖w − Φ(w)‖ of a w that is at rest
STALLED = 3  # points in a row that are no better than the ones before: only rounding is left
CONTRACTS = 0.9  # a lower level whose steps shrink faster than this is worth plain iterations for v too


def to_tolerance(
    problem: Problem, tolerance: Tolerance, w0: Tensor, v0: Tensor | None, most: int, with_proof: bool,
    newton: bool = True,
) -> AccurateHypergradient:  # fmt: skip
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
    newton : bool
        Whether Newton steps may be taken; steps of the lower level otherwise.

    Returns
    -------
    AccurateHypergradient

    Raises
    ------
    ToleranceError
        If the tolerance is not reached; `best` has what was.
    DivergenceError
        If the lower level diverges.
    """
    solvers, point = _first(problem, w0, v0, most, newton)
    tol, gaps, errors, answer, sensitivity = LOOSEST, [], [], None, 0.0
    for _ in range(ROUNDS):
        tol = max(tol * FACTOR, 10 * torch.finfo(problem.dtype).eps)
        following = _following(solvers, point, tol)
        gaps.append(float(lower_level.length(following.value - point.value)))
        sensitivity = max(sensitivity, _sensitivity(gaps[-1], point))
        eps_g = _estimate(gaps, sensitivity, point, following)
        tol = min(tol, following.linear_residual)  # the next solve is to improve on this one
        if eps_g is None:
            errors.append(math.inf)
            if _stalled(errors):
                break
            point = following
            continue
        estimated = accuracy(as_array(point.value), as_array(following.value), eps_g)
        errors.append(float(estimated.error.upper))
        answer = _Answer(point, following.value, estimated, eps_g)
        if tolerance.allows(estimated):
            proof = prove(problem, solvers, point, following, tolerance) if with_proof else "no proof was asked for"
            if proof == ANOTHER and newton:  # a Newton step went too far
                return to_tolerance(problem, tolerance, w0, v0, most, with_proof, newton=False)
            if isinstance(proof, str):
                return _result(solvers, answer, following.work, 0, proof)
            if tolerance.allows(proof.accuracy):
                proved = _Answer(point, proof.corrected, proof.accuracy, proof.eps_g)
                return _result(solvers, proved, following.work, proof.products, "")
        elif _stalled(errors):
            break
        point = following
    if answer is None:
        raise ToleranceError(
            f"{problem.name}: the lower level does not come to rest: ‖w − Φ(w)‖ = {float(point.excess.norm()):.1e} "
            f"after {point.work.products} products; check that Φ contracts at this lam, and is smooth"
        )
    best = _result(solvers, answer, following.work, 0, "the tolerance was not reached")
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


@dataclass(frozen=True, eq=False)
class _Answer:
    """A point, a better hypergradient, and what it shows of the error of the point."""

    point: AidPoint
    corrected: Tensor
    accuracy: Accuracy
    eps_g: Constant


def _first(problem: Problem, w0: Tensor, v0: Tensor | None, most: int, newton: bool) -> tuple[Solvers, AidPoint]:
    """A few steps of the lower level, the solvers that suit the problem, and AID there."""
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
    work = Work(t=FIRST)
    for method in _methods(fast, prepared, w, lengths):
        solvers = Solvers(fast, prepared, method, most, newton)
        try:
            point = solvers.at(w, v0, LOOSEST, work)
        except AssumptionError:  # I − ∂₁Φ is not definite here, so conjugate gradient does not apply
            continue
        if bool(torch.isfinite(point.value).all()):
            return solvers, point
    raise ToleranceError(f"{problem.name}: no linear solver gives a finite hypergradient at t = {FIRST}; change params")


def _methods(problem: Problem, prepared: Prepared, w: Tensor, lengths: list[float]) -> list[str]:
    """Linear solvers in the order in which to try them."""
    contracts = lengths[-1] <= CONTRACTS * lengths[0]
    others = ["aid-fp", "aid-cgn"] if contracts else ["aid-cgn"]
    try:
        conjugate_gradient.refuse_unless_symmetric(linearise(problem, w, prepared), problem)
    except AssumptionError:
        return others
    return ["aid-cg", *others]


def _following(solvers: Solvers, point: AidPoint, tol: float) -> AidPoint:
    """The next point."""
    w, work = solvers.better_w(point, FACTOR)
    if not bool(torch.isfinite(w).all()):
        raise lower_level.explain_divergence(
            solvers.problem, solvers.prepared.ready, solvers.problem.dynamics.start(point.w), work.t - point.work.t
        )
    try:
        return solvers.at(w, point.v, tol, work)
    except AssumptionError:  # not definite at the new point
        return replace(solvers, method="aid-cgn").at(w, point.v, tol, work)


def _sensitivity(gap: float, point: AidPoint) -> float:
    """By how much g moved with the residual of w, which is taken as no smaller than its rounding."""
    info = torch.finfo(point.w.dtype)
    least = RESTS * info.eps * float(point.w.norm())
    return gap / max(float(point.excess.norm()), least, info.tiny)


def _estimate(gaps: list[float], sensitivity: float, point: AidPoint, following: AidPoint) -> Constant | None:
    """How far the next point itself may be off; None where it is not closer to a fixed point than the one before.

    It is the part of the gap that the residuals of w, or the gaps before, leave; the part of the implicit term that the
    residual of v leaves; and what rounding of w and g may do, if it acts on g as the residuals of the points so far.
    """
    info = torch.finfo(point.w.dtype)
    excess = float(point.excess.norm().clamp(min=info.tiny))
    least = RESTS * info.eps * float(point.w.norm())  # a residual of this size is rounding
    left = float(following.excess.norm()) / max(excess, least, info.tiny)
    if len(gaps) > 1 and gaps[-2] > 0:
        left = max(left, min(gaps[-1] / gaps[-2], 0.5))
    implicit = float(lower_level.length(following.value - following.direct))
    linear = implicit * following.linear_residual
    size = float(lower_level.length(following.value))
    rounding = UNITS * info.eps * (size + sensitivity * float(point.w.norm()))
    value = gaps[-1] * left / (1 - left) + linear + rounding if left <= 0.5 else math.inf
    if not math.isfinite(value):
        return None
    return Constant("eps_g", value, Side.LOWER, Provenance("the residuals of two points, to first order"))


def _stalled(errors: list[float]) -> bool:
    """Did the last points bring nothing?"""
    return len(errors) > STALLED and min(errors[-STALLED:]) >= 0.5 * min(errors[:-STALLED])


def _result(solvers: Solvers, answer: _Answer, work: Work, proof_products: int, why_not: str) -> AccurateHypergradient:
    point = answer.point
    linear, with_split = solvers.linear_part(point, ROUGH)
    return AccurateHypergradient(
        value=point.value,
        method=solvers.method,
        t=point.work.t,
        k=point.work.k,
        accuracy=answer.accuracy,
        corrected=answer.corrected,
        corrected_error=answer.eps_g.value,
        lower_level_part=float((point.value - answer.corrected - linear).norm()),
        linear_part=float(linear.norm()),
        products=work.products + with_split.products - point.work.products,
        proof_products=proof_products,
        why_not_proved=why_not,
        w=point.w,
        v=point.v,
        layout=solvers.problem.lam_layout,
    )

"""`audit`: how far off a hypergradient from anywhere is, and which part of it is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boundcheck.compare.certified_reference import CertifiedReference, certified_reference
from boundcheck.constants import Constant, Provenance
from boundcheck.errors import BoundcheckError, InputError
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.solvers.reference import reference
from boundcheck.numerics.solvers.result import Hypergradient
from boundcheck.report.accuracy import Accuracy, accuracy
from boundcheck.report.audit import Audit
from boundcheck.side import Side
from boundcheck.trust import audit_words, faults, low_precision
from boundcheck.trust.diagnosis import Diagnosis, Suspect, double, simplest
from boundcheck.trust.evidence import Evidence
from boundcheck.trust.gradient_certificate import DELTA
from boundcheck.trust.pieces import Pieces
from boundcheck.trust.result import AccurateHypergradient

EQUAL_UNITS = 1e3  # by how many units two equal vectors may differ
UNSURE = 10  # times the typical rounding of a reference that nothing certifies
ASSEMBLY = ("sign", "scale", "direct-term", "transpose", "lambda")  # faults that w and v have no part in


@on_few_threads
def audit(
    problem: Problem | str, g: Any, w: Any = None, v: Any = None, *, lam: Any = None, previous: Any = None
) -> Audit:  # fmt: skip
    """Say how far a hypergradient is from ∇f(λ), and which part of its computation is wrong.

    The hypergradient may come from any library. It is compared with a certified reference. A fault is named only if
    what g would be with this fault alone is so near to g that chance does not explain it.

    Parameters
    ----------
    problem : Problem or str
        The problem, or its name as `load_problem` takes it.
    g : Hypergradient, structure of the hyperparameters, flat tensor or array of shape (n,)
        The hypergradient. Of a `Hypergradient`, w and v are those that it has.
    w : structure of the parameters, or flat tensor of shape (d,), optional
        The inner solution that g was computed from.
    v : structure of the parameters, or flat tensor of shape (d,), optional
        The solution of the linear system that g was computed from: of (I − ∂₁Φᵀ)v = ∇₁E, or for a loss of
        ∂₁₁ℓ v = ∇₁E; the one that it fits better is meant.
    lam : structure of the hyperparameters, or flat tensor of shape (n,), optional
        The λ at which ∇f is wanted; the problem's own by default.
    previous : structure of the hyperparameters, or flat tensor of shape (n,), optional
        An earlier λ that g may still belong to.

    Returns
    -------
    Audit
        `.relative_error`, `.angle`, `.descent`, bounds `.error`, `.fault`, and `.message`.

    Raises
    ------
    InputError
        If g, w, v or λ has another shape, dtype or device than the problem, or entries that are not finite; or if the
        problem is stochastic.
    DivergenceError
        If w(λ) cannot be found, so that there is nothing to compare with.
    UserCodeError
        If a function of the user raises, or its derivatives are not those of autograd.

    Examples
    --------
    >>> import boundcheck as bc
    >>> problem = bc.problems.scalar(q=0.5)
    >>> right = bc.hypergradient(problem, "exact").value
    >>> print(bc.audit(problem, -right))
    g is 200% off (angle 180°), −g is not a descent direction. Its sign is wrong. Return −g.
    >>> bc.audit(problem, right).fault is None
    True
    """
    problem = require_problem(problem)
    given = _given(problem, g, w, v, lam, previous)
    certified = _reference(given.problem)
    own = quick(given.problem)
    solution = certified.solution
    exact = Pieces(own, solution.w[0], solution.v[0])
    eps_g = certified.eps_g or _estimate(exact)
    found = accuracy(double(given.g).numpy(), double(solution.value[0]).numpy(), eps_g)
    doubt = audit_words.doubt(certified.eps_g)
    if not _is_off(found, given.g, eps_g):
        return _result(found, None, doubt)
    base = _base(own, exact, given)
    rounding = EQUAL_UNITS * torch.finfo(own.dtype).eps * float(given.g.norm() + solution.value[0].norm())
    evidence = Evidence(
        own, given.g, exact, base, problem.lam, rounding, _alpha(given.problem), given.previous,
        w_given=given.w is not None, v_given=given.v is not None,
    )  # fmt: skip
    error = double(given.g) - double(solution.value[0])
    diagnosis = simplest(faults.explanations(evidence), error, double(given.g), rounding)
    diagnosis = _or_precision(diagnosis, evidence, float(error.norm()), given)
    if diagnosis is None:
        return _result(found, None, _nothing(evidence), doubt)
    left = _what_is_left(evidence, diagnosis, found)
    return _result(found, diagnosis, audit_words.fault(diagnosis), left, doubt)


@dataclass(frozen=True, eq=False)
class _Given:
    """What the user brought, as flat vectors that fit the problem; the problem is at the λ that was asked for."""

    problem: Problem
    g: Tensor
    w: Tensor | None
    v: Tensor | None
    previous: Tensor | None


def _given(problem: Problem, g: Any, w: Any, v: Any, lam: Any, previous: Any) -> _Given:
    at_lam = problem if lam is None else problem.at(_tensor(lam))
    if isinstance(g, Hypergradient | AccurateHypergradient):
        w, v, g = g.w if w is None else w, g.v if v is None else v, g.value

    def flat(value: Any, name: str) -> Tensor | None:
        return None if value is None else at_lam.checked(_tensor(value), name)

    value = flat(g, "g")
    if value is None:
        raise InputError(f"{problem.name}: g is None; give the hypergradient that is to be audited")
    return _Given(at_lam, value, flat(w, "w"), flat(v, "v"), _earlier(problem, previous))


def _earlier(problem: Problem, previous: Any) -> Tensor | None:
    if previous is None:
        return None
    try:
        return problem.at(_tensor(previous)).lam
    except InputError as why:
        raise InputError(f"previous as lam: {why}") from None


def _tensor(value: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value


def _reference(problem: Problem) -> CertifiedReference:
    """The reference, with a bound of its error where there is one: what cannot be certified is still an estimate."""
    try:
        return certified_reference(problem, None, Spend(DELTA, 0, None))
    except BoundcheckError:  # of what is wrong with the problem itself, one of the next two raises again
        validate.check(problem, problem.lam)
        return CertifiedReference(reference(quick(problem), problem.lam[None]), None)


def _estimate(exact: Pieces) -> Constant:
    """How far a reference that nothing certifies is off if rounding is all that is wrong with it."""
    try:
        size = UNSURE * low_precision.typical_error(exact, torch.finfo(exact.w.dtype).eps)
    except BoundcheckError:
        size = 0.0
    size = size if math.isfinite(size) else 0.0
    return Constant("eps_g", size, Side.LOWER, Provenance("the rounding of the reference, estimated"))


def _is_off(found: Accuracy, g: Tensor, eps_g: Constant) -> bool:
    """Is there an error to explain: more than half of the digits are wrong, and not by the reference's own error?"""
    right = math.sqrt(torch.finfo(g.dtype).eps) * float(found.gradient_norm.upper)
    return bool(found.error.upper > right and found.error.lower > 2 * eps_g.value)


def _base(problem: Problem, exact: Pieces, given: _Given) -> Pieces:
    """The parts of g, as they should be with the w and v that belong to it."""
    if given.w is None and given.v is None:
        return exact
    at_w = exact if given.w is None else Pieces(problem, given.w)
    if given.v is None:
        return at_w
    alpha = _alpha(given.problem)
    candidates = [given.v] if alpha is None else [given.v, given.v / alpha]
    return Pieces(problem, at_w.w, min(candidates, key=at_w.residual))


def _alpha(problem: Problem) -> float | None:
    """The step size, where Φ = w − α∇₁ℓ with one α."""
    if problem.step_at is None:
        return None
    step = problem.step_at(problem.prepare(problem.lam))
    if isinstance(step, Tensor):
        return float(step.detach()) if step.numel() == 1 else None
    return float(step)


def _or_precision(diagnosis: Diagnosis | None, e: Evidence, error: float, given: _Given) -> Diagnosis | None:
    """Precision, where nothing else explains the error, or where it is in a w or v of a lower precision.

    The digits of a w or v say nothing of a g that is far from what they would give.
    """
    exact = e.exact
    of_g = e.off_base <= low_precision.AT_MOST * error
    solutions = {name: x for name, x in (("w", given.w), ("v", given.v)) if x is not None and of_g}
    if diagnosis is None:
        low = low_precision.low_precision(exact, error, {"g": given.g, **solutions})
    elif diagnosis.best.fault in ("inner", "linear-solve") and given.g.dtype is torch.float64 and solutions:
        low = low_precision.low_precision(exact, error, solutions)
    else:
        return diagnosis
    return diagnosis if low is None else Diagnosis(Suspect("precision", error, *audit_words.precision(low)))


def _what_is_left(e: Evidence, diagnosis: Diagnosis, found: Accuracy) -> str:
    """What the w and v of g leave to be wanted when an error of another kind is corrected."""
    if diagnosis.best.fault not in ASSEMBLY or not (e.w_given or e.v_given):
        return ""
    left = float((double(e.base.value) - double(e.exact.value)).norm()) / float(found.gradient_norm.upper)
    return audit_words.left_over(left)


def _nothing(e: Evidence) -> str:
    """What to say where no fault explains the error."""
    if not bool(e.g.any()):
        return audit_words.ZERO
    if e.w_given and e.v_given:
        return audit_words.not_from(e.off_base / float(e.base.value.norm()))
    if e.problem.n == 1 and bool(e.exact.value != 0):
        return audit_words.single(float(e.g[0] / e.exact.value[0]))
    return audit_words.UNEXPLAINED


def _result(found: Accuracy, diagnosis: Diagnosis | None, *words: str) -> Audit:
    return Audit(
        error=found.error,
        relative_error=found.relative_error,
        angle=found.angle,
        descent=found.descent,
        fault=None if diagnosis is None else diagnosis.best.fault,
        message=audit_words.message(found, *words),
        gradient_norm=found.gradient_norm,
        remedy="" if diagnosis is None else diagnosis.best.remedy,
    )

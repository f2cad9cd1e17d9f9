"""`audit`: measure the error of any hypergradient, and find the part of its computation that is wrong."""

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

EQUAL_UNITS = 1e3  # equal vectors may differ by this many rounding units
UNSURE = 10  # the estimated error of an uncertified reference, in units of its typical rounding
ASSEMBLY = ("sign", "scale", "direct-term", "transpose", "lambda")  # faults that do not depend on w and v


@on_few_threads
def audit(
    problem: Problem | str, g: Any, w: Any = None, v: Any = None, *, lam: Any = None, previous: Any = None
) -> Audit:  # fmt: skip
    """Measure how far a hypergradient is from ∇f(λ), and find which part of its computation is wrong.

    The hypergradient may come from any library. It is compared with a certified reference. The audit computes the
    hypergradient that each single fault would give, and names a fault only if g is too near to it for chance.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`.
    g : Hypergradient, structure of the hyperparameters, flat tensor or array of shape (n,)
        The hypergradient. A `Hypergradient` also provides w and v.
    w : structure of the parameters, or flat tensor of shape (d,), optional
        The inner solution from which g was computed.
    v : structure of the parameters, or flat tensor of shape (d,), optional
        The solution of the linear system from which g was computed: of (I − ∂₁Φᵀ)v = ∇₁E, or for a loss of
        ∂₁₁ℓ v = ∇₁E. The audit assumes the system that v fits better.
    lam : structure of the hyperparameters, or flat tensor of shape (n,), optional
        The λ at which ∇f is compared; the problem's own λ by default.
    previous : structure of the hyperparameters, or flat tensor of shape (n,), optional
        An earlier λ; the audit tests whether g belongs to it.

    Returns
    -------
    Audit
        The result, with `.relative_error`, `.angle`, `.descent`, the bounds `.error`, `.fault` and `.message`.

    Raises
    ------
    InputError
        If g, w, v or λ has another shape, dtype or device than the problem, or entries that are not finite; or if the
        problem is stochastic.
    DivergenceError
        If w(λ) cannot be computed, and so the reference cannot.
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
    user_input = _user_input(problem, g, w, v, lam, previous)
    certified = _reference(user_input.problem)
    own = quick(user_input.problem)
    solution = certified.solution
    exact = Pieces(own, solution.w[0], solution.v[0])
    eps_g = certified.eps_g or _estimate(exact)
    g_accuracy = accuracy(double(user_input.g).numpy(), double(solution.value[0]).numpy(), eps_g)
    doubt = audit_words.doubt(certified.eps_g)
    if not _is_off(g_accuracy, user_input.g, eps_g):
        return _result(g_accuracy, None, doubt)
    base = _base(own, exact, user_input)
    rounding = EQUAL_UNITS * torch.finfo(own.dtype).eps * float(user_input.g.norm() + solution.value[0].norm())
    evidence = Evidence(
        own, user_input.g, exact, base, problem.lam, rounding, _alpha(user_input.problem), user_input.previous,
        w_given=user_input.w is not None, v_given=user_input.v is not None,
    )  # fmt: skip
    error = double(user_input.g) - double(solution.value[0])
    diagnosis = simplest(faults.explanations(evidence), error, double(user_input.g), rounding)
    diagnosis = _or_precision(diagnosis, evidence, float(error.norm()), user_input)
    if diagnosis is None:
        return _result(g_accuracy, None, _nothing(evidence), doubt)
    left = _what_is_left(evidence, diagnosis, g_accuracy)
    return _result(g_accuracy, diagnosis, audit_words.fault(diagnosis), left, doubt)


@dataclass(frozen=True, eq=False)
class _UserInput:
    """The user's vectors, flat and of the problem's size, and the problem at the requested λ."""

    problem: Problem
    g: Tensor
    w: Tensor | None
    v: Tensor | None
    previous: Tensor | None


def _user_input(problem: Problem, g: Any, w: Any, v: Any, lam: Any, previous: Any) -> _UserInput:
    at_lam = problem if lam is None else problem.at(_tensor(lam))
    if isinstance(g, Hypergradient | AccurateHypergradient):
        w, v, g = g.w if w is None else w, g.v if v is None else v, g.value

    def flat(value: Any, name: str) -> Tensor | None:
        return None if value is None else at_lam.checked(_tensor(value), name)

    value = flat(g, "g")
    if value is None:
        raise InputError(f"{problem.name}: g is None; give the hypergradient to audit")
    return _UserInput(at_lam, value, flat(w, "w"), flat(v, "v"), _earlier(problem, previous))


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
    """The reference with a bound on its error, or without one if it cannot be certified."""
    try:
        return certified_reference(problem, None, Spend(DELTA, 0, None))
    except BoundcheckError:  # if the problem itself is wrong, one of the next two lines raises again
        validate.check(problem, problem.lam)
        return CertifiedReference(reference(quick(problem), problem.lam[None]), None)


def _estimate(exact: Pieces) -> Constant:
    """An estimate of the error of an uncertified reference, if the error is only rounding."""
    try:
        size = UNSURE * low_precision.typical_error(exact, torch.finfo(exact.w.dtype).eps)
    except BoundcheckError:
        size = 0.0
    size = size if math.isfinite(size) else 0.0
    return Constant("eps_g", size, Side.LOWER, Provenance("the rounding of the reference, estimated"))


def _is_off(g_accuracy: Accuracy, g: Tensor, eps_g: Constant) -> bool:
    """Whether there is an error to explain: more than half of the digits are wrong, and not due to the reference."""
    right = math.sqrt(torch.finfo(g.dtype).eps) * float(g_accuracy.gradient_norm.upper)
    return bool(g_accuracy.error.upper > right and g_accuracy.error.lower > 2 * eps_g.value)


def _base(problem: Problem, exact: Pieces, user_input: _UserInput) -> Pieces:
    """The correct parts of a hypergradient with the w and v of g."""
    if user_input.w is None and user_input.v is None:
        return exact
    at_w = exact if user_input.w is None else Pieces(problem, user_input.w)
    if user_input.v is None:
        return at_w
    alpha = _alpha(user_input.problem)
    candidates = [user_input.v] if alpha is None else [user_input.v, user_input.v / alpha]
    return Pieces(problem, at_w.w, min(candidates, key=at_w.residual))


def _alpha(problem: Problem) -> float | None:
    """The step size if Φ = w − α∇₁ℓ with a single α; else None."""
    if problem.step_at is None:
        return None
    step = problem.step_at(problem.prepare(problem.lam))
    if isinstance(step, Tensor):
        return float(step.detach()) if step.numel() == 1 else None
    return float(step)


def _or_precision(diagnosis: Diagnosis | None, e: Evidence, error: float, user_input: _UserInput) -> Diagnosis | None:
    """Diagnose low precision, if nothing else explains the error, or if w or v has a lower precision.

    The digits of w and v matter only if g is near the hypergradient that they give.
    """
    exact = e.exact
    of_g = e.off_base <= low_precision.AT_MOST * error
    solutions = {name: x for name, x in (("w", user_input.w), ("v", user_input.v)) if x is not None and of_g}
    if diagnosis is None:
        low = low_precision.low_precision(exact, error, {"g": user_input.g, **solutions})
    elif diagnosis.best.fault in ("inner", "linear-solve") and user_input.g.dtype is torch.float64 and solutions:
        low = low_precision.low_precision(exact, error, solutions)
    else:
        return diagnosis
    return diagnosis if low is None else Diagnosis(Suspect("precision", error, *audit_words.precision(low)))


def _what_is_left(e: Evidence, diagnosis: Diagnosis, g_accuracy: Accuracy) -> str:
    """A sentence about the error that remains from w and v after the diagnosed fault is corrected."""
    if diagnosis.best.fault not in ASSEMBLY or not (e.w_given or e.v_given):
        return ""
    left = float((double(e.base.value) - double(e.exact.value)).norm()) / float(g_accuracy.gradient_norm.upper)
    return audit_words.left_over(left)


def _nothing(e: Evidence) -> str:
    """The message if no fault explains the error."""
    if not bool(e.g.any()):
        return audit_words.ZERO
    if e.w_given and e.v_given:
        return audit_words.not_from(e.off_base / float(e.base.value.norm()))
    if e.problem.n == 1 and bool(e.exact.value != 0):
        return audit_words.single(float(e.g[0] / e.exact.value[0]))
    return audit_words.UNEXPLAINED


def _result(g_accuracy: Accuracy, diagnosis: Diagnosis | None, *words: str) -> Audit:
    return Audit(
        error=g_accuracy.error,
        relative_error=g_accuracy.relative_error,
        angle=g_accuracy.angle,
        descent=g_accuracy.descent,
        fault=None if diagnosis is None else diagnosis.best.fault,
        message=audit_words.message(g_accuracy, *words),
        gradient_norm=g_accuracy.gradient_norm,
        remedy="" if diagnosis is None else diagnosis.best.remedy,
    )

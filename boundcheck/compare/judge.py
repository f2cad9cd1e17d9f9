"""Compare the errors of one method with every bound on them: values, verdict, tightness and proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from boundcheck.compare.applicability import question
from boundcheck.compare.applied_bound import Applied, apply, of_sample
from boundcheck.compare.case import Case
from boundcheck.compare.certificate import proved
from boundcheck.compare.proof_trace import trace
from boundcheck.compare.reasons import Finding, limits_of, missing, reason
from boundcheck.errors import AssumptionError, InputError, MissingConstantError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import rounding_noise
from boundcheck.numerics.estimate.rounding_floor import unit
from boundcheck.report import tightness
from boundcheck.report.method_curve import BoundCurve, Curve, Trace
from boundcheck.report.verdict import FORMULA_ROUNDING, Verdict, excess, judge, worst
from boundcheck.side import Side
from boundcheck.theory.bound import Bound
from boundcheck.theory.evaluation import BoundValues
from boundcheck.theory.kinds import BoundKind

Observed = Mapping[str, np.ndarray]
FROM_W_STAR = {"r_t", "path_t"}  # observables that are distances to w*
LOOKS = 3  # compare a violation with the scatter of runs at most this often
CONSTANTS_ROUNDED = 256  # the rounding error of a constant in units of ε; it is a norm of computed numbers


@dataclass(frozen=True, eq=False)
class MethodRun:
    """The runs of one method: errors at every λ and t, and observables at the first λ.

    Attributes
    ----------
    method : Method
        The method.
    errors, floor : array of shape (samples, T)
        The errors, infinite if not finite, and the rounding floor. Errors below the floor are rounding.
    cases : sequence of Case
        The problem with its constants at each λ.
    ts : array
        The t at which observables were measured.
    from_reference : mapping of arrays by name
        Observables at `ts`, with distances to the reference.
    from_w_star : mapping of arrays by name
        Observables at `ts`, with upper bounds on the distances to w* itself.
    spectral : mapping of arrays by name
        The terms of the bounds that follow from the spectrum.
    doubt : str
        Why the bounds on distances to w* are not proved; empty if they are.
    gradient_norm : float
        A lower bound on ‖∇f‖ at the first λ, if the reference is certified; 0 if unknown.
    """

    method: Method
    errors: np.ndarray
    floor: np.ndarray
    cases: Sequence[Case]
    ts: np.ndarray
    from_reference: Observed
    from_w_star: Observed
    spectral: Observed
    doubt: str = ""
    gradient_norm: float = 0.0


@dataclass(frozen=True, eq=False)
class Applies:
    """A bound that applies: its inputs at each λ, and its values where the theorem applies."""

    first: Applied  # the inputs at the first λ, with observables at all t of `MethodRun.ts`
    applied: Sequence[Applied]  # the inputs at each λ, at `ts`
    ts: np.ndarray  # the t at which the theorem may apply
    evaluations: Sequence[BoundValues]
    values: np.ndarray  # samples × T, NaN where the theorem does not apply
    longer: np.ndarray | None  # the bound far beyond T, for its rate
    doubt: str  # why the bound is not proved to apply; empty if it is


@dataclass(frozen=True)
class DoesNotApply:
    """The reason why a bound does not apply."""

    reason: str


def curve(run: MethodRun, bounds: Sequence[Bound]) -> Curve:
    """Compare the errors of a method with the bounds on them.

    Parameters
    ----------
    run : MethodRun
        The runs of the method.
    bounds : sequence of Bound
        The bounds on this method.

    Returns
    -------
    Curve
        The errors, and a verdict for every bound.
    """
    T = run.errors.shape[1]
    steps = np.arange(1, T + 1)
    return Curve(
        method=str(run.method),
        t=steps,
        k=None if run.method.name == "itd" else np.array([run.method.steps(int(t)) for t in steps]),
        errors=run.errors,
        floor=run.floor,
        rate=tightness.rate(run.errors[0], run.floor[0]),
        needs=tightness.first_below(run.errors.max(axis=0)),
        bounds={bound.name: _bound_curve(bound, run) for bound in bounds},
    )


def _bound_curve(bound: Bound, run: MethodRun) -> BoundCurve:
    observed = run.spectral if bound.kind is BoundKind.FROM_SPECTRUM else run.from_w_star
    outcome = _applies(bound, run, observed)
    if isinstance(outcome, DoesNotApply):
        return _not_applicable(bound, outcome, run)
    floor = _floor(run, outcome)
    verdicts = [
        judge(run.errors[i], outcome.values[i], floor[i], worth.side, certified=proved(run.cases[i].certificate))
        for i, worth in enumerate(outcome.evaluations)
    ]
    verdict = worst([verdict for verdict in verdicts if verdict is not Verdict.NOT_APPLICABLE])
    sample = verdicts.index(verdict)  # the λ that decides
    delta = min(1.0, sum(worth.delta for worth in outcome.evaluations))
    proof = _proof(run, outcome, observed, floor)
    finding = Finding(
        verdict, sample, run.errors, outcome.values, floor, outcome.evaluations[sample].weakest, delta, outcome.doubt,
        proof, limits_of(bound, outcome.values, np.isfinite(outcome.values[0, run.ts - 1])),
    )  # fmt: skip
    longer = outcome.longer
    return BoundCurve(
        **_identity(bound),
        values=outcome.values,
        side=max((worth.side for worth in outcome.evaluations), key=list(Side).index),
        delta=delta,
        weakest=finding.weakest,
        verdict=verdict,
        reason=reason(finding),
        tightness=tightness.ratio(outcome.values, run.errors, floor),
        rate_predicted=None if longer is None else tightness.last_rate(longer),
        asks={} if longer is None else tightness.first_below(longer),
        trace=proof,
        asks_relative={} if longer is None else tightness.first_below_relative(longer, run.gradient_norm),
    )


def _applies(bound: Bound, run: MethodRun, observed: Observed) -> Applies | DoesNotApply:
    """The values of the bound at every λ, or the reason why it does not apply."""
    answers = [question(bound, run.method, case) for case in run.cases]
    for i, answer in enumerate(answers):
        if answer.refusal:
            return DoesNotApply(answer.refusal + (of_sample(i, run.cases) if i else ""))
    try:
        return _evaluated(bound, run, observed, next((answer.doubt for answer in answers if answer.doubt), ""))
    except MissingConstantError as why:
        return DoesNotApply(missing(why, run.cases[0].problem))
    except (AssumptionError, InputError) as why:
        return DoesNotApply(str(why))


def _evaluated(bound: Bound, run: MethodRun, observed: Observed, doubt: str) -> Applies | DoesNotApply:
    applied = [apply(bound, run.method, case, observed) for case in run.cases]
    first, ts = applied[0], np.arange(1, run.errors.shape[1] + 1)
    if first.observed:  # evaluate at the first λ only, where w_t is in the ball of the constants
        inside = _in_ball(first.observed, observed, run.cases[0])
        applied, ts = [_restricted(first, inside)], run.ts[inside]
    evaluations = applied[0].values_at(applied, ts)
    values = np.full(run.errors.shape, np.nan)
    values[: len(evaluations), ts - 1] = [worth.values for worth in evaluations]
    if not np.isfinite(values).any():
        return DoesNotApply("its values are too large for a float at every t")
    doubt = doubt or (run.doubt if FROM_W_STAR & set(first.observed) else "")
    if doubt:
        evaluations = [replace(worth, side=Side.LOWER, delta=0.0, weakest=()) for worth in evaluations]
    longest = tightness.LONGEST_BOUND if bound.recursion is None else tightness.LONGEST_RECURSION
    least = min(tightness.ACCURACIES[-1], tightness.RELATIVE[-1] * run.gradient_norm or np.inf)
    longer = None if first.observed else tightness.follow(lambda n: first.values(n).values, longest, least)
    return Applies(first, applied, ts, evaluations, values, longer, doubt)


def _identity(bound: Bound) -> dict[str, Any]:
    """The fields of a curve that describe its bound."""
    return {
        "name": bound.name,
        "title": bound.title,
        "reference": bound.reference.number,
        "kind": bound.kind,
        "ball": bound.ball,
    }


def _not_applicable(bound: Bound, outcome: DoesNotApply, run: MethodRun) -> BoundCurve:
    nothing = np.full(run.errors.shape, np.nan)
    return BoundCurve(
        **_identity(bound),
        values=nothing,
        side=Side.LOWER,
        delta=0.0,
        weakest=(),
        verdict=Verdict.NOT_APPLICABLE,
        reason=outcome.reason.removeprefix(f"{bound.name}: "),
        tightness=nothing.copy(),
        rate_predicted=None,
        asks={},
        trace=None,
    )


def _floor(run: MethodRun, outcome: Applies) -> np.ndarray:
    """The floor of the run; if a bound seems violated, also the rounding of constants and the scatter of runs."""
    floor = run.floor
    for i in np.flatnonzero(excess(run.errors, outcome.values, floor).any(axis=1)).tolist():
        case, worth = run.cases[i], outcome.evaluations[i]
        floor = floor.copy()
        floor[i, outcome.ts - 1] += _rounding_of_constants(
            outcome.applied[i], worth.values, outcome.ts, case.problem.dtype
        )
        if worth.side is not Side.LOWER and proved(case.certificate):
            floor[i] = _confirmed_floor(run.method, case.problem, run.errors[i], outcome.values[i], floor[i])
    return floor


def _rounding_of_constants(applied: Applied, values: np.ndarray, ts: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The growth of the bound when its constants are rounded to the safe side; infinite if a condition then fails."""
    try:
        safe = applied.rounded_up(CONSTANTS_ROUNDED * unit(dtype)).values(ts).values
    except AssumptionError:  # q is 1 up to rounding
        return np.full(values.shape, np.inf)
    with np.errstate(invalid="ignore"):
        more: np.ndarray = np.where(np.isnan(values), 0.0, np.maximum(safe - values, 0))
    return more


def _confirmed_floor(
    method: Method, problem: Problem, errors: np.ndarray, values: np.ndarray, floor: np.ndarray
) -> np.ndarray:
    """The floor, raised if runs with random rounding errors scatter by more than the floor."""
    for _ in range(LOOKS):
        over = np.where(excess(errors, values, floor), errors - values - floor, -np.inf)
        t = int(over.argmax())
        if not np.isfinite(over[t]):
            break
        scatter = rounding_noise.of_run(problem, str(method), t + 1)
        if scatter <= floor[t]:
            break
        floor = floor * (scatter / floor[t]) if floor[t] > 0 else np.maximum(floor, scatter)
    return floor


def _proof(run: MethodRun, outcome: Applies, observed: Observed, floor: np.ndarray) -> Trace | None:
    """The proof chain at the first λ, at the t of the observables where the bound applies.

    Links use the measured distances. A bound that contains distances itself keeps the upper bounds on them.
    """
    first = outcome.first
    applies = np.isfinite(outcome.values[0, run.ts - 1])
    distances = {n: x for n, x in run.from_reference.items() if n in FROM_W_STAR and n not in first.observed}
    numbers = {name: x[applies] for name, x in {**run.from_reference, **observed, **distances}.items()}
    ts = run.ts[applies]
    return trace(_restricted(first, applies), ts, numbers, run.errors[0, ts - 1], floor[0, ts - 1])


def _in_ball(of_bound: Observed, observed: Observed, case: Case) -> np.ndarray:
    """Where w_t is in the ball of the constants, if r_t was measured; AssumptionError if w_t never is."""
    finite = np.all([np.isfinite(x) for x in of_bound.values()], axis=0)
    inside: np.ndarray = finite & (observed.get("r_t", np.zeros(len(finite))) <= case.radius * (1 + FORMULA_ROUNDING))
    if not inside.any():
        raise AssumptionError(f"‖w_t − w*‖ > {case.radius:.3g} at every t: outside the ball of its constants")
    return inside


def _restricted(applied: Applied, mask: np.ndarray) -> Applied:
    """The same inputs, with the observables at some of the t only."""
    return replace(applied, observed={name: x[mask] for name, x in applied.observed.items()})

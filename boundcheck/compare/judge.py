"""The curve of one method with every bound on it: values, verdict, tightness, and the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from boundcheck.compare.applicability import Case, question
from boundcheck.compare.applied_bound import Applied, apply, of_sample
from boundcheck.compare.certificate import proved
from boundcheck.compare.proof_trace import trace
from boundcheck.constants import Side
from boundcheck.errors import AssumptionError, InputError, MissingConstantError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.error_curves import Curves
from boundcheck.numerics.estimate import rounding_noise
from boundcheck.numerics.estimate.rounding_floor import unit
from boundcheck.report import tightness
from boundcheck.report.report import BoundCurve, Curve, Trace
from boundcheck.report.verdict import ROUNDING, Verdict, excess, judge, worst
from boundcheck.theory.bound import Bound
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.symbols import QUANTITIES, rho

Observed = Mapping[str, np.ndarray]
FROM_W_STAR = {"r_t", "path_t"}  # observables that are distances to w*
LOOKS = 3  # times that a violation is tried against the scatter of a run
CONSTANTS_ROUNDED = 256  # units by which a constant may be off: a norm of numbers that were computed


def curve(
    method: Method, curves: Curves, floor: np.ndarray, fitting: Sequence[Bound], cases: Sequence[Case],
    observed: Observed, foreseen: Observed, ts: np.ndarray, seen: Observed, far: str = "",
) -> Curve:  # fmt: skip
    """The curve of a method: `seen` is what was measured of the run at the first λ, at `ts`.

    `observed` is the same with bounds on the distances to w* itself; `foreseen` follows from the spectrum. `far` says
    why distances to the reference may not be those to w*, if so. An error that is not finite counts as infinite.
    """
    errors = curves[str(method)]
    errors = np.where(np.isfinite(errors), errors, np.inf)
    return Curve(
        method=str(method),
        t=curves.t,
        k=None if method.name == "itd" else np.array([method.steps(int(t)) for t in curves.t]),
        errors=errors,
        floor=floor,
        rate=tightness.rate(errors[0], floor[0]),
        needs=tightness.first_below(errors.max(axis=0)),
        bounds={
            b.name: _bound_curve(
                b,
                method,
                errors,
                floor,
                cases,
                foreseen if b.kind is BoundKind.FROM_SPECTRUM else observed,
                ts,
                seen,
                far,
            )
            for b in fitting
        },
    )


def _bound_curve(
    bound: Bound, method: Method, errors: np.ndarray, floor: np.ndarray, cases: Sequence[Case],
    observed: Observed, ts: np.ndarray, seen: Observed, far: str,
) -> BoundCurve:  # fmt: skip
    every = np.arange(1, errors.shape[1] + 1)
    values = np.full(errors.shape, np.nan)
    try:
        answers = [question(bound, method, case) for case in cases]
        for i, answer in enumerate(answers):
            if answer.refusal:
                raise AssumptionError(answer.refusal + (of_sample(i, cases) if i else ""))
        applied = [apply(bound, method, case, observed) for case in cases]
        first = applied[0]
        if first.observed:  # it was observed at the first λ only
            inside = _in_ball(first.observed, observed, cases[0])
            applied, at = [_at(first, inside)], ts[inside]
        else:
            at = every
        worths = applied[0].values_at(applied, at)
        values[: len(worths), at - 1] = [worth.values for worth in worths]
        if not np.isfinite(values).any():
            raise AssumptionError("its values are too large for a float at every t")
        longest = tightness.LONGEST if bound.recursion is None else tightness.LONGEST_RECURSION
        followed = None if first.observed else tightness.follow(lambda n: first.values(n).values, longest)
    except (AssumptionError, MissingConstantError, InputError) as why:
        return _not_applicable(bound, str(why), np.full(errors.shape, np.nan))
    doubt = next((answer.doubt for answer in answers if answer.doubt), "")
    doubt = doubt or (far if FROM_W_STAR & set(first.observed) else "")
    if doubt:
        worths = [replace(worth, side=Side.LOWER, delta=0.0, weakest=()) for worth in worths]
    for i in np.flatnonzero(excess(errors, values, floor).any(axis=1)).tolist():  # is it rounding, seen more closely?
        floor = floor.copy()
        floor[i, at - 1] += _rounding_of_constants(applied[i], worths[i].values, at, cases[i].problem.dtype)
        if worths[i].side is not Side.LOWER and proved(cases[i].certificate):
            floor[i] = _confirmed_floor(method, cases[i].problem, errors[i], values[i], floor[i])
    each = [
        judge(errors[i], values[i], floor[i], worth.side, certified=proved(cases[i].certificate))
        for i, worth in enumerate(worths)
    ]
    said = [verdict for verdict in each if verdict is not Verdict.NOT_APPLICABLE]
    verdict = worst(said)
    sample = each.index(verdict)  # the λ that decides
    side, weakest = max((worth.side for worth in worths), key=list(Side).index), worths[sample].weakest
    delta = min(1.0, sum(worth.delta for worth in worths))
    spoken = np.isfinite(values[0, ts - 1])
    here = ts[spoken]
    of_them = {name: x[spoken] for name, x in {**seen, **observed, **_plain_distances(seen, first)}.items()}
    proof = trace(_at(first, spoken), here, of_them, errors[0, here - 1], floor[0, here - 1])
    return BoundCurve(
        name=bound.name,
        title=bound.title,
        reference=bound.reference.number,
        kind=bound.kind,
        ball=first.ball,
        values=values,
        side=side,
        delta=delta,
        weakest=weakest,
        verdict=verdict,
        reason=_reason(
            verdict, _limits(bound, values, spoken), doubt, weakest, delta, errors, values, floor, sample, proof
        ),
        tightness=tightness.ratio(values, errors, floor),
        rate_predicted=None if followed is None else tightness.last_rate(followed),
        asks={} if followed is None else tightness.first_below(followed),
        trace=proof,
    )


def _in_ball(seen: Observed, observed: Observed, case: Case) -> np.ndarray:
    """Where w_t is in the ball that the constants were taken on, if r_t is told; AssumptionError where it never is."""
    finite = np.all([np.isfinite(x) for x in seen.values()], axis=0)
    inside: np.ndarray = finite & (observed.get("r_t", np.zeros(len(finite))) <= case.radius * (1 + ROUNDING))
    if not inside.any():
        raise AssumptionError(f"‖w_t − w*‖ > {case.radius:.3g} at every t: outside the ball of its constants")
    return inside


def _plain_distances(seen: Observed, applied: Applied) -> Observed:
    """Distances as they were measured, for links of a proof; a bound that is made of them keeps what it was given."""
    return {name: x for name, x in seen.items() if name in FROM_W_STAR and name not in applied.observed}


def _at(applied: Applied, some: np.ndarray) -> Applied:
    """The same with what was observed at some of the t."""
    return replace(applied, observed={name: x[some] for name, x in applied.observed.items()})


def _not_applicable(bound: Bound, why: str, values: np.ndarray) -> BoundCurve:
    return BoundCurve(
        name=bound.name,
        title=bound.title,
        reference=bound.reference.number,
        kind=bound.kind,
        ball=bound.ball,
        values=values,
        side=Side.LOWER,
        delta=0.0,
        weakest=(),
        verdict=Verdict.NOT_APPLICABLE,
        reason=why.removeprefix(f"{bound.name}: "),
        tightness=np.full(values.shape, np.nan),
        rate_predicted=None,
        asks={},
        trace=None,
    )


def _limits(bound: Bound, values: np.ndarray, spoken: np.ndarray) -> str:
    """At which t the theorem speaks, unless at all."""
    if any(a.key == "ball" for a in bound.assumptions):
        also = ", and near enough to w* for its conditions" if bound.conditions else ""
        return "" if spoken.all() else f"at the t where w_t is in the ball its constants were taken on{also}"
    since = int(np.isfinite(values).all(axis=0).argmax()) + 1
    limits = f"for t ≥ {since}" if since > 1 else ""
    return limits + (", as ρ(t) > 1 before" if limits and any(c.left == rho for c in bound.conditions) else "")


def _rounding_of_constants(applied: Applied, values: np.ndarray, ts: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """By how much the bound may be larger when its constants are rounded to the safe side; infinite if it has none."""
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
    """The floor, raised where runs with random rounding errors scatter by more, before a bound is called violated."""
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


def _reason(
    verdict: Verdict, limits: str, doubt: str, weakest: Sequence[str], delta: float, errors: np.ndarray,
    values: np.ndarray, floor: np.ndarray, sample: int, seen: Trace | None,
) -> str:  # fmt: skip
    """What a reader must know beside the word of the verdict, which the λ number `sample` decides."""
    if verdict is Verdict.CONSISTENT and doubt:
        return f"no proof: {doubt}"
    if verdict is Verdict.CONSISTENT:
        return "no proof: " + _doubt(weakest, "{names} {are} estimated from {side}", ("below", "above"))
    if verdict is Verdict.HOLDS_PROBABLY:
        return f"with probability at least {1 - delta:.6g}, for {', '.join(weakest)}"
    if verdict is Verdict.HOLDS:
        return limits
    at = int(excess(errors[sample], values[sample], floor[sample]).argmax())
    ratio = errors[sample, at] / values[sample, at] if values[sample, at] > 0 else np.inf
    told = f"error/bound = {ratio:.3g} at t = {at + 1}{of_sample(sample, errors)}"
    if verdict is Verdict.INCONCLUSIVE:
        doubt = doubt or (_doubt(weakest, "{names} may be too {side}", ("small", "large")) if weakest else "")
        return f"{told}; {doubt or 'the reference hypergradient is not certified'}"
    link = None if seen is None else seen.first_broken
    if link is None or seen is None:
        return told
    uses = seen.uses[seen.links.index(link)]
    return f"{told}; the proof breaks at {link!r}" + (f", which uses {', '.join(uses)}" if uses else "")


def _doubt(names: Sequence[str], says: str, sides: tuple[str, str]) -> str:
    """Which constants are in doubt, and on what side: the second is that of μ and μ_λ, with which bounds fall."""
    falling = [name for name in names if QUANTITIES[name].direction < 0]
    both = ([name for name in names if name not in falling], falling)
    return ", ".join(
        says.format(names=", ".join(some), are="is" if len(some) == 1 else "are", side=side)
        for some, side in zip(both, sides, strict=True)
        if some
    )

"""The curve of one method with every bound on it: values, verdict, tightness, and the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from boundcheck.compare import tightness
from boundcheck.compare.applicable import Case, ball_of, refusal
from boundcheck.compare.applied import apply
from boundcheck.compare.curves import Curves
from boundcheck.compare.report import BoundCurve, Curve, Trace
from boundcheck.compare.trace import trace
from boundcheck.compare.verdict import Verdict, excess, judge
from boundcheck.constants import Side
from boundcheck.errors import AssumptionError, MissingConstantError
from boundcheck.methods import Method
from boundcheck.theory.bound import Bound
from boundcheck.theory.symbols import QUANTITIES, rho

Observed = Mapping[str, np.ndarray]


def curve(
    method: Method, curves: Curves, floor: np.ndarray, fitting: Sequence[Bound], cases: Sequence[Case],
    observed: Observed, ts: np.ndarray,
) -> Curve:  # fmt: skip
    """`observed` was seen of the run at the first λ, at `ts`; an error that is not finite counts as infinite."""
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
        bounds={b.name: _bound_curve(b, method, errors, floor, cases, observed, ts) for b in fitting},
    )


def _bound_curve(
    bound: Bound, method: Method, errors: np.ndarray, floor: np.ndarray, cases: Sequence[Case],
    observed: Observed, ts: np.ndarray,
) -> BoundCurve:  # fmt: skip
    every = np.arange(1, errors.shape[1] + 1)
    values = np.full(errors.shape, np.nan)
    try:
        if why := refusal(bound, method, cases[0]):
            raise AssumptionError(why)
        applied = [apply(bound, method, case, observed) for case in cases]
        first = applied[0]
        if first.observed:  # it was observed at the first λ only
            worths = [first.values(ts)]
            values[0, ts - 1] = worths[0].values
        else:
            worths = first.values_at(applied, every)
            values[:] = [worth.values for worth in worths]
    except (AssumptionError, MissingConstantError) as why:
        return _not_applicable(bound, str(why), values)
    side = max((worth.side for worth in worths), key=list(Side).index)
    delta = min(1.0, sum(worth.delta for worth in worths))
    verdict = judge(errors, values, floor, side)
    seen = trace(first, ts, observed, errors[0, ts - 1], floor[0, ts - 1])
    followed = None if first.observed else tightness.follow(lambda n: first.values(n).values)
    return BoundCurve(
        name=bound.name,
        title=bound.title,
        reference=bound.reference.number,
        ball=first.ball,
        values=values,
        side=side,
        delta=delta,
        weakest=worths[0].weakest,
        verdict=verdict,
        reason=_reason(verdict, bound, worths[0].weakest, delta, errors, values, floor, seen),
        tightness=tightness.ratio(values, errors, floor),
        rate_predicted=None if followed is None else tightness.last_rate(followed),
        asks={} if followed is None else tightness.first_below(followed),
        trace=seen,
    )


def _not_applicable(bound: Bound, why: str, values: np.ndarray) -> BoundCurve:
    return BoundCurve(
        name=bound.name,
        title=bound.title,
        reference=bound.reference.number,
        ball=ball_of(bound),
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


def _reason(
    verdict: Verdict, bound: Bound, weakest: Sequence[str], delta: float, errors: np.ndarray, values: np.ndarray,
    floor: np.ndarray, seen: Trace | None,
) -> str:  # fmt: skip
    """What a reader must know beside the word of the verdict."""
    since = int(np.isfinite(values).all(axis=0).argmax()) + 1
    limits = f"for t ≥ {since}" if since > 1 else ""
    limits += ", as ρ(t) > 1 before" if limits and any(c.left == rho for c in bound.conditions) else ""
    if verdict is Verdict.CONSISTENT:
        return "no proof: " + _doubt(weakest, "{names} {are} estimated from {side}", ("below", "above"))
    if verdict is Verdict.HOLDS_PROBABLY:
        return f"with probability at least {1 - delta:.6g}, for {', '.join(weakest)}"
    if verdict is Verdict.HOLDS:
        return limits
    above = excess(errors, values, floor)
    sample, at = np.argwhere(above)[0]
    ratio = errors[sample, at] / values[sample, at] if values[sample, at] > 0 else np.inf
    told = f"error/bound = {ratio:.3g} at t = {at + 1}" + (f", λ number {sample}" if len(errors) > 1 else "")
    if verdict is Verdict.INCONCLUSIVE:
        return f"{told}; " + _doubt(weakest, "{names} may be too {side}", ("small", "large"))
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

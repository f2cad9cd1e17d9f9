"""The sentences of a report: the verdict, the step size, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from boundcheck.ball import BallKind
from boundcheck.report.summary import Course, MethodSummary
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side, in_words, standing
from boundcheck.theory.step_advice import StepAdvice, advise, contraction

if TYPE_CHECKING:
    from boundcheck.report.report import Report

PLAIN = ("", "gradient-descent", "fixed-point")  # iterations w_{t+1} = Φ(w_t)
MOST = 4  # at most this many pieces of advice


def verdict_sentence(report: Report) -> str:
    """The verdict in words, with the number of bounds that have it."""
    counts: Counter[Verdict] = Counter(report.verdicts.values())
    del counts[Verdict.NOT_APPLICABLE]
    total = sum(counts.values())
    if not total:
        return "no bound applies"
    verdict = report.verdict
    return f"{verdict.value}: {_count(verdict, counts, total)}"


def _count(verdict: Verdict, counts: Counter[Verdict], total: int) -> str:
    number = counts[verdict]
    of_all = f"{number} of {total} applicable bounds"
    if verdict is Verdict.HOLDS:
        return "the one applicable bound holds" if total == 1 else f"all {total} applicable bounds hold"
    if verdict is Verdict.HOLDS_PROBABLY:
        return f"all {total} applicable bounds hold, {number} of them with high probability"
    if verdict is Verdict.CONSISTENT:
        if number == total:
            which = "the one applicable bound was" if total == 1 else f"the {total} applicable bounds were"
            return f"{which} not contradicted; no bound is proved"
        rest = f"the other {number} were not contradicted, but rest on estimates"
        return f"{total - number} of {total} applicable bounds hold; {rest}"
    if verdict is Verdict.INCONCLUSIVE:
        return f"the error is above {of_all}, but their constants may be too small"
    surely = "are right with high probability" if verdict is Verdict.VIOLATED_PROBABLY else "are proved"
    return f"the error is above {of_all}, and their constants {surely}"


def step_sentence(report: Report) -> str:
    """Whether Φ contracts on the ball of the iterates, and which step size to use."""
    advice = _step_advice(report)
    if advice is not None:
        dynamics = str(report.problem.get("dynamics", ""))
        momentum = "" if dynamics in PLAIN else f" This is the step of Φ; the iterates are those of {dynamics}."
        return f"{advice.sentence[0].upper()}{advice.sentence[1:]}.{momentum}"
    q = report.constants[BallKind.LOCAL].get("q")
    if q is None:
        return ""
    refuted = q.side in (Side.EXACT, Side.LOWER)  # q ≥ 1 at some point of the ball
    contracts = "contracts" if q.value < 1 else "does not contract" if refuted else "is not known to contract"
    return f"Φ {contracts} on the ball of the iterates ({contraction(q.value, q.side)}, {standing(q.side, 'q')})."


def _step_advice(report: Report) -> StepAdvice | None:
    chosen = report.problem.get("step")
    local, paper = report.constants[BallKind.LOCAL], report.constants[BallKind.PAPER]
    return advise(local, paper, None if chosen is None else str(chosen))


def next_steps(report: Report, methods: Sequence[MethodSummary]) -> tuple[str, ...]:
    """What to do next, the most useful advice first."""
    advice = [*_violations(report), *_lost_runs(report, methods), *_missing_constants(report)]
    return tuple(dict.fromkeys(advice))[:MOST]


def _violations(report: Report) -> Iterator[str]:
    for curve in report.curves.values():
        for bound in curve.bounds.values():
            if bound.verdict.is_violation or bound.verdict is Verdict.INCONCLUSIVE:
                yield f"{bound.name} on {curve.method}: {bound.reason}"


def _lost_runs(report: Report, methods: Sequence[MethodSummary]) -> Iterator[str]:
    """Advice on methods whose error does not fall, and a step size that contracts."""
    advice = _step_advice(report)
    better = advice is not None and advice.alpha is not None and not advice.keep
    if advice is not None and better:
        yield f"Take step_size={advice.alpha:g}."
    diverging = [m.method for m in methods if m.course is Course.DIVERGES]
    if diverging and not better:
        yield f"{' and '.join(diverging)} diverged: {_remedy(report, advice)}."
    if stalled := [m.method for m in methods if m.course is Course.STALLS]:
        yield f"The error of {' and '.join(stalled)} does not fall yet: take more steps (--t), or another start w_0."


def _remedy(report: Report, advice: StepAdvice | None) -> str:
    """What may help a diverging run if no better step size is known."""
    if advice is not None and advice.alpha is None:
        return "no step size contracts; change the loss, or take another start w_0"
    if report.problem.get("step") is None:
        return "Φ does not contract; damp it, as in w + β(Φ(w) − w) with β < 1, or change it"
    return "take a smaller step size, or another start w_0"


def _missing_constants(report: Report) -> Iterator[str]:
    """Advice on the constant whose proof would prove the most bounds."""
    sole_gaps = Counter(
        name
        for curve in report.curves.values()
        for bound in curve.bounds.values()
        if bound.verdict in (Verdict.CONSISTENT, Verdict.INCONCLUSIVE) and len(bound.weakest) == 1
        for name in bound.weakest
    )
    unproved = {
        name
        for curve in report.curves.values()
        for bound in curve.bounds.values()
        if bound.verdict in (Verdict.CONSISTENT, Verdict.INCONCLUSIVE)
        for name in bound.weakest
    }
    local = report.constants[BallKind.LOCAL]
    if "q" in local and local["q"].value >= 1:  # no other constant helps
        return
    if sole_gaps:
        name, count = sole_gaps.most_common(1)[0]
        proved = "one more bound" if count == 1 else f"{count} more bounds"
        value = f" (now {local[name].value:.4g}, {in_words(local[name].side, name)})" if name in local else ""
        yield f"Prove {name}{value}, and {proved} would be proved. If you know a bound of it, {_how_to_give(name)}."
    elif unproved:
        yield f"No bound is proved until {', '.join(sorted(unproved))} are; they are estimates now."


def _how_to_give(name: str) -> str:
    return f"give it: --know {name}=…, or known= in Python"

"""The sentences of a stochastic report: its verdict, what the runs show, how it is known, and what to do next."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from boundcheck.number_text import downward, number, percent, upward
from boundcheck.report.stochastic_curve import Measured
from boundcheck.report.stochastic_summary import PARTS, ErrorParts, Size, error_parts
from boundcheck.report.stochastic_verdict_words import confidence
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side, standing

if TYPE_CHECKING:
    from boundcheck.report.stochastic_curve import MeanEstimate, StochasticBound, StochasticCurve
    from boundcheck.report.stochastic_report import StochasticReport

MOST_REASONS = 2  # give at most this many reasons why bounds do not apply
STEP = re.compile(r"[ηβγ].*\d")  # a reason about a step, with its number
ZERO = 0.005  # smaller shares of the error are not mentioned
PART = {
    Measured.BIAS: "bias",
    Measured.VARIANCE_GIVEN_W: "variance from the linear solver and the last minibatch",
    Measured.VARIANCE_OF_MEAN: "variance from the lower level",
}


def title(report: StochasticReport) -> str:
    """The problem, its size and its minibatches."""
    p = report.problem
    replacement = "with" if p.get("replacement") else "without"
    batch = f", minibatches of {p['batch']} of {p['examples']} {replacement} replacement" if p.get("batch") else ""
    return f"{p['name']}: d = {p['dim']}, n = {p['hdim']}{batch}, {p['dtype']} on {p['device']}"


def how_it_ran(report: StochasticReport) -> str:
    """The runs and their steps."""
    steps = f"steps {report.steps} for w and {report.steps_v} for v"
    if report.steps == report.steps_v:
        steps = f"steps {report.steps}"
    how = f" ({report.steps_how})" if report.steps_how else ""
    return f"{report.runs} independent runs, seed {report.seed}; {steps}{how}"


def is_undecided(bound: StochasticBound) -> bool:
    """Whether the runs do not decide if the quantity is below the bound."""
    return bound.verdict is Verdict.INCONCLUSIVE or bound.reason.startswith("undecided")


def confidence_of_intervals(report: StochasticReport) -> str:
    """The confidence of the intervals in a few words; for Student's t it is approximate."""
    means = [mean for curve in report.curves.values() for mean in curve.means.values()]
    if all(mean.proved for mean in means):
        return f"intervals of confidence {confidence(report)}"
    return f"approximate intervals for {100 * report.level:.10g}%"


def size(x: float, relative: bool) -> str:
    """An error, in per cent of ‖∇f‖ if it is relative."""
    return percent(x) if relative else number(x)


def between(of: Size, relative: bool) -> str:
    """The ends of an interval in words, rounded outwards."""
    low, high = (
        f"{rounded(100 * x if relative else x)}{'%' if relative else ''}"
        for rounded, x in ((downward, of.lower), (upward, of.upper))
    )
    if of.upper == math.inf:
        return f"at least {low}" if of.nonzero else "not known"
    return f"between {low} and {high}" if of.nonzero else f"at most {high}"


def measured_sentence(report: StochasticReport, method: str, *, shares: bool = True) -> str:
    """The error of a method at the last point; with `shares` also the shares of bias and variance."""
    of = error_parts(report, method)
    if of.diverges:
        return f"{method} diverges: at {of.steps} its mean square error is not a finite number."
    if of.rounding:
        return f"At {of.steps} only rounding is left of the error of {method}."
    unit = " of ‖∇f‖" if of.relative else ""
    sentence = (
        f"At {of.steps} the root mean square error of {method} is {size(of.error.value, of.relative)}{unit} "
        f"({between(of.error, of.relative)})"
    )
    if of.bias is not None:
        sentence += f", its bias {_bias(of.bias, of.relative)}"
    return f"{sentence}. {parts_sentence(of.shares)}" if of.shares and shares else f"{sentence}."


def parts_sentence(shares: Mapping[Measured, float]) -> str:
    """The shares of bias and variance in the mean square error, in words."""
    parts = [f"{100 * shares[part]:.0f}% is {PART[part]}" for part in PARTS if shares.get(part, 0) >= ZERO]
    return f"Of the mean square error, by these estimates, {_list(parts)}."


def _bias(bias: Size, relative: bool) -> str:
    if not bias.nonzero:
        return f"{between(bias, relative)}"
    return f"{size(bias.value, relative)} ({between(bias, relative)})"


def _list(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def intervals_sentence(report: StochasticReport) -> str:
    """How the intervals are known."""
    means = [mean for curve in report.curves.values() for mean in curve.means.values()]
    hows = "; ".join(dict.fromkeys(mean.how for mean in means if mean.how))
    how = f" ({hows})" if hows else ""
    if all(mean.proved for mean in means):
        return f"All intervals hold together with probability {confidence(report)}{how}."
    return (
        f"The intervals are those for a probability of {100 * report.level:.10g}%{how}. Where a few draws are "
        "far from the others, they are too short."
    )


def doubts(report: StochasticReport) -> list[str]:
    """Reasons why bounds or errors are not proved."""
    sentences = []
    if report.radius is None:
        why = f": {report.ball_doubt}" if report.ball_doubt else ""
        sentences.append(f"No ball is proved to contain all iterates{why}. So constants on a ball are estimates.")
    if report.certificate is None:
        sentences.append("The reference hypergradient has no certificate, so that bias and errors are estimates.")
    if not 0 < report.gradient_norm < math.inf:
        sentences.append("∇f is 0 up to rounding or not known, so errors are absolute.")
    return sentences


def next_steps(report: StochasticReport) -> list[str]:
    """What to do next, the most useful first."""
    every = [*_violations(report), *_undecided(report), *_diverging(report), *_largest_parts(report)]
    return list(dict.fromkeys([*every, *_forbidden_steps(report)]))


def _bounds(report: StochasticReport) -> Iterator[tuple[str, StochasticBound]]:
    for method, curve in report.curves.items():
        for bound in curve.bounds.values():
            yield method, bound


def _violations(report: StochasticReport) -> Iterator[str]:
    for method, bound in _bounds(report):
        if bound.verdict.is_violation:
            yield f"{bound.name} on {method}: {bound.reason or bound.verdict.value}."


def _undecided(report: StochasticReport) -> Iterator[str]:
    """Bounds that more runs would decide, with the number of runs; then the other undecided bounds."""
    open_bounds = [(m, b) for m, b in _bounds(report) if is_undecided(b)]
    more = sorted((b.more_runs, f"{b.name} on {m}") for m, b in open_bounds if b.more_runs is not None)
    if more:
        first, every = _upward(more[0][0]), _upward(more[-1][0])
        sentence = f"About {first} more runs would decide {more[0][1]} (--runs {report.runs + first})"
        yield f"{sentence}, and {every} all {len(more)} that are undecided." if len(more) > 1 else f"{sentence}."
    for method, bound in open_bounds:
        if bound.more_runs is None:
            yield f"{bound.name} on {method} is not decided: {bound.reason or 'its constants may be too small'}."


def _upward(count: int) -> int:
    """Round up to two digits."""
    power: int = 10 ** max(0, len(str(count)) - 2)
    return -(-count // power) * power


def _diverging(report: StochasticReport) -> Iterator[str]:
    lost = [method for method in report.curves if error_parts(report, method).diverges]
    if lost:
        yield f"{_list(lost)} diverged: take smaller steps (--step), or a larger batch (--batch)."


def _largest_parts(report: StochasticReport) -> Iterator[str]:
    """How to reduce the largest part of each error; methods with the same remedy are grouped."""
    groups: dict[tuple[Measured, str], list[ErrorParts]] = {}
    for method in report.curves:
        of = error_parts(report, method)
        if of.largest is not None and not of.diverges and not of.rounding:
            groups.setdefault((of.largest, method.partition(":")[0]), []).append(of)
    for (part, _), group in groups.items():
        how_much = "Most" if all(of.shares[part] > 0.5 for of in group) else "The largest part"
        names = _list([of.method for of in group])
        yield f"{how_much} of the error of {names} is {PART[part]}: {_remedy(group, part, report)}."


def _remedy(group: list[ErrorParts], part: Measured, report: StochasticReport) -> str:
    first, larger = group[0], _larger_batch(report)
    if part is Measured.BIAS:
        return f"take more steps (--t {2 * first.t}), or larger ones (--step)"
    if part is Measured.VARIANCE_OF_MEAN:
        return f"take smaller steps for w (--step){f' or {larger}' if larger else ''}"
    name = first.method.partition(":")[0]
    if name == "neumann":
        return f"{f'take {larger}, or ' if larger else ''}try sid"
    more = f"{name}:{2 * first.k}" if len(group) == 1 else f"a larger k, as in {name}:{2 * first.k}"
    return f"take {f'{larger}, ' if larger else ''}smaller steps for v (--step-v), or more of them ({more})"


def _larger_batch(report: StochasticReport) -> str:
    """Advice to take four times the batch, or all examples; empty if the batch already has all."""
    batch, examples = report.problem.get("batch"), report.problem.get("examples")
    if not isinstance(batch, int) or not isinstance(examples, int):
        return "a larger batch (--batch)"
    return f"a larger batch (--batch {min(4 * batch, examples)})" if batch < examples else ""


def _forbidden_steps(report: StochasticReport) -> Iterator[str]:
    """Reasons about steps that a theorem forbids, each once; all reasons if no bound applies."""
    reasons, none = reasons_not_applicable(report), report.verdict is Verdict.NOT_APPLICABLE
    forbidden = {why: names for why, names in reasons.items() if none or STEP.search(why)}
    for why, names in list(forbidden.items())[:MOST_REASONS]:
        yield f"{_list(names)} {'does' if len(names) == 1 else 'do'} not apply: {why}."


def reasons_not_applicable(report: StochasticReport) -> dict[str, list[str]]:
    """The names of the bounds that do not apply, by reason."""
    reasons: dict[str, list[str]] = {}
    for _, bound in _bounds(report):
        if bound.verdict is Verdict.NOT_APPLICABLE:
            names = reasons.setdefault(bound.reason.rstrip("."), [])
            names += [bound.name] if bound.name not in names else []
    return reasons


def reasons(curve: StochasticCurve) -> dict[str, list[str]]:
    """The evidence for the verdicts on the bounds of a method, with the names of the bounds."""
    result: dict[str, list[str]] = {}
    for bound in curve.bounds.values():
        if bound.applies and bound.reason:
            result.setdefault(bound.reason, []).append(bound.name)
    return result


def interval(mean: MeanEstimate, place: int, to: str = " … ") -> str:
    """The ends of an interval, rounded outwards."""
    low, high = float(mean.lower[place]), float(mean.upper[place])
    if not math.isfinite(low):
        return "–"
    return f"{downward(low, 2)}{to}{upward(high, 2)}"


def status(bound: StochasticBound) -> str:
    """How a bound is known; or "violated" or "undecided"."""
    if bound.verdict.is_violation:
        return Verdict.VIOLATED.value
    if is_undecided(bound):
        return "undecided"
    proved = bound.verdict in (Verdict.HOLDS, Verdict.HOLDS_PROBABLY)
    return standing(bound.side) if proved or bound.side is Side.LOWER else Verdict.CONSISTENT.value

"""The verdict of a stochastic report in a sentence: how many bounds hold, and what is known of the others."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from boundcheck.report.verdict import Verdict
from boundcheck.side import Side

if TYPE_CHECKING:
    from boundcheck.report.stochastic_report import StochasticReport


def verdict_sentence(report: StochasticReport) -> str:
    """The verdict in words, with how many bounds it is about."""
    counts: Counter[Verdict] = Counter(report.verdicts.values())
    del counts[Verdict.NOT_APPLICABLE]
    if not counts:
        return "no bound applies"
    if report.verdict in (Verdict.CONSISTENT, Verdict.INCONCLUSIVE):
        bounds = [bound for curve in report.curves.values() for bound in curve.bounds.values()]
        decidable = sum(bound.more_runs is not None for bound in bounds)
        words = _not_all_hold(counts, decidable, confidence(report))
    else:
        words = _count(report.verdict, counts[report.verdict], counts.total(), confidence(report))
    return f"{report.verdict.value}: {words}"


def confidence(report: StochasticReport) -> str:
    """The probability with which all intervals, and all constants that hold with some probability, are right."""
    certificate = (report.certificate,) if report.certificate is not None else ()
    every = [*report.constants.values(), *certificate]
    wrong = math.fsum(c.provenance.delta or 0.0 for c in every if c.side is Side.HIGH_PROBABILITY)
    return f"{100 * max(0.0, report.level - wrong):.10g}%"


def _count(verdict: Verdict, some: int, total: int, sure: str) -> str:
    if verdict in (Verdict.HOLDS, Verdict.HOLDS_PROBABLY):
        every = "the one applicable bound holds" if total == 1 else f"all {total} applicable bounds hold"
        return f"{every}, with confidence {sure}"
    of_all = f"{some} of {total} applicable bounds" if total > 1 else "the one applicable bound"
    return f"the runs contradict {of_all}, with confidence {sure}"


def _not_all_hold(counts: Counter[Verdict], decidable: int, sure: str) -> str:
    """How many bounds hold, and of the others how many more runs would decide and how many the estimate is above."""
    total, above = counts.total(), counts[Verdict.INCONCLUSIVE]
    held = counts[Verdict.HOLDS] + counts[Verdict.HOLDS_PROBABLY]
    rest = total - held
    which = f"the {total} applicable bounds" if total > 1 else "the one applicable bound"
    words = ""
    if held:
        words = f"{held} of {total} applicable bounds {'hold' if held > 1 else 'holds'}, with confidence {sure}; "
        which = f"the other {rest}" if rest > 1 else "the other one"
    words += f"{which} {'were' if rest > 1 else 'was'} neither confirmed nor contradicted"
    if above:
        words += f" (the estimate is above {_of(above, rest)})"
    if decidable:
        return f"{words}; more runs would decide {_of(decidable, rest)}"
    return words if held else f"{words}; nothing is proved"


def _of(some: int, rest: int) -> str:
    if rest == 1:
        return "it"
    return "them" if some == rest else f"{some} of them"

"""Output of `boundcheck check --verbose`: every bound of a report, the iterations, and where the proofs are loose."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck.report.method_curve import BoundCurve, Curve, Trace
from boundcheck.report.report import Report
from boundcheck.report.verdict import Verdict
from boundcheck.side import standing
from boundcheck.views.terminal import tightness_table
from boundcheck.views.terminal.console import number

STYLES = {
    Verdict.HOLDS: "green",
    Verdict.HOLDS_PROBABLY: "green",
    Verdict.CONSISTENT: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.VIOLATED: "bold red",
    Verdict.VIOLATED_PROBABLY: "bold red",
}
FLOORS = {"model": "from a model (only one precision available)"}
SLACK_SHOWN = 5e-4  # a link with a slack closer to 1 is not shown
WIDE_TERMINAL = 105  # in terminals with fewer columns, the theorems are left out
NARROW = 72  # in terminals with fewer columns, the largest ratio is left out too


def show(report: Report, console: Console, trace_t: int | None = None) -> None:
    """Print each method with its bounds, the iterations that they need, and where the proofs are loose.

    The proofs are shown at `trace_t`, or at the last t above the floor.
    """
    if any(curve.applicable for curve in report.curves.values()):
        console.print(_verdicts(report, console.width))
    _not_applicable(console, report)
    console.print()
    if (iterations := _iterations(report)).row_count:
        console.print(iterations)
        console.print()
    _looseness(console, report, trace_t)
    tightness_table.show(console, report)
    _footnotes(console, report)


def _verdicts(report: Report, width: int) -> Table:
    """Return the table of verdicts; in a narrow terminal without theorems, or also without the largest ratio."""
    without = ("theorem", "compared") * (width < WIDE_TERMINAL) + ("worst",) * (width < NARROW)
    headers = ("method", "bound", "theorem", "verdict", "best", "worst", "at end", "compared", "rate")
    table = Table(box=None, pad_edge=False, title="bound/error over t, and rates", title_justify="left")
    table.title_style = "bold"
    for title in headers:
        if title not in without:
            right = title in headers[4:]
            table.add_column(title, justify="right" if right else "left", no_wrap=True, min_width=7 if right else None)

    def row(*cells: str | Text) -> None:
        table.add_row(*(cell for title, cell in zip(headers, cells, strict=True) if title not in without))

    for curve in report.curves.values():
        rate = "–" if curve.rate is None else f"{curve.rate.value:.5f}"
        last = number(float(curve.errors[:, -1].mean()))
        where = "" if curve.rate is None else f"rate on t = {curve.rate.first}–{curve.rate.last}"
        row(Text(curve.method, style="bold"), "error", Text(where, "dim"), "", "", "", last, "", rate)
        for bound in sorted(curve.applicable.values(), key=lambda bound: bound.at_end):
            predicted = "–" if bound.rate_predicted is None else f"{bound.rate_predicted:.5f}"
            verdict = Text(bound.verdict.value.replace("with high probability", "(prob.)"), STYLES[bound.verdict])
            best, worst, end = (number(x) for x in (bound.best, bound.worst, bound.at_end))
            points = f"{bound.compared} of {bound.tightness.size}"
            row("", bound.name, bound.reference, verdict, best, worst, end, points, predicted)
    return table


def _not_applicable(console: Console, report: Report) -> None:
    """Print the reasons of verdicts, and the bounds that do not apply; each reason once."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for curve in report.curves.values():
        for bound in curve.bounds.values():
            is_above = bound.verdict.is_violation or bound.verdict is Verdict.INCONCLUSIVE  # reason printed above
            if bound.reason and not is_above:
                applies = bound.verdict is not Verdict.NOT_APPLICABLE
                names = reasons[("" if applies else "not applicable: ") + f"{{}}: {bound.reason}"]
                names += [bound.name] if bound.name not in names else []
    for reason, names in sorted(reasons.items(), key=lambda item: item[0].startswith("not applicable")):
        console.print(Text(reason.replace("{}", ", ".join(names), 1), style="dim"))


def _iterations(report: Report) -> Table:
    """Return a table with the t that was needed and the least guaranteed t, for each accuracy that is reached."""
    table = Table(box=None, pad_edge=False, title="iterations", title_justify="left", title_style="bold")
    table.add_column("error ≤", justify="right")
    for curve in report.curves.values():
        table.add_column(f"{curve.method} needs", justify="right")
        table.add_column("guaranteed", justify="right", style="dim")
    T = int(next(iter(report.curves.values())).t[-1])
    for eps in next(iter(report.curves.values())).needs:
        answers = [(curve.needs[eps], _least(curve, eps)) for curve in report.curves.values()]
        if all(answer == (None, None) for answer in answers):
            continue
        cells = []
        for needed, guaranteed in answers:
            cells += [f"> {T}" if needed is None else str(needed), "–" if guaranteed is None else str(guaranteed)]
        table.add_row(f"{eps:.0e}", *cells)
    return table


def _least(curve: Curve, eps: float) -> int | None:
    """Return the least t that a proved bound guarantees."""
    steps = [b.asks.get(eps) for b in curve.bounds.values() if b.verdict is Verdict.HOLDS]
    return min((t for t in steps if t is not None), default=None)


def _looseness(console: Console, report: Report, t: int | None) -> None:
    """Print for each method the proof of the bound with its name, or else of its tightest bound, at t or the last t."""
    for curve in report.curves.values():
        traced = [bound for bound in curve.applicable.values() if bound.trace is not None]
        named = [bound for bound in traced if bound.name == curve.method.partition(":")[0]]
        for bound in named or sorted(traced, key=lambda bound: bound.at_end)[:1]:
            if bound.trace is not None:
                place = len(bound.trace.t) - 1 if t is None else int(np.abs(bound.trace.t - t).argmin())
                console.print(Text(_title(curve, bound, bound.trace, place), style="bold"))
                console.print(_waterfall(bound.trace, place, because=console.width >= WIDE_TERMINAL))
                for sentence in _falling(bound.trace, place):
                    console.print(Text(sentence, style="bold red"))
                if t is not None and bound.trace.t[place] != t:
                    console.print(Text(f"t = {t} is at the floor or was not traced; this is the nearest t", "dim"))
                console.print()


def _falling(trace: Trace, place: int) -> Iterator[str]:
    """Yield a sentence for each link that makes the value smaller, which no link of a proof may do."""
    for i, name in enumerate(trace.links):
        slack, uses = trace.slacks[i, place], ", ".join(trace.uses[i])
        if i and slack < 1 - SLACK_SHOWN:
            cause = f"{uses} is too small" if uses else "a constant is too small"
            why = f"{cause}, as an estimate from below may be" if trace.broken[i, place] else "that is rounding"
            yield f"{name!r} lowers the value (×{slack:.4g}): {why}"


def _title(curve: Curve, bound: BoundCurve, trace: Trace, place: int) -> str:
    total = float(trace.values[-1, place] / trace.values[0, place]) if trace.values[0, place] > 0 else math.inf
    whose = f"the error of method {curve.method} at t = {trace.t[place]}"
    return f"why bound {bound.name} ({bound.reference}) is {total:.4g} times {whose}"


def _waterfall(trace: Trace, place: int, *, because: bool) -> Table:
    """Return the proof at one t as a table: links that lose or break, the value after each, slack, and share."""
    table = Table(box=None, pad_edge=False)
    for header in ("link", "value", "slack", "share", *(["because"] if because else [])):
        table.add_column(header, justify="left" if header in ("link", "because") else "right")
    slacks, shares = trace.slacks[:, place], trace.shares[:, place]
    for i, name in enumerate(trace.links):
        if 0 < i < len(slacks) - 1 and abs(slacks[i] - 1) < SLACK_SHOWN and not trace.broken[i, place]:
            continue
        share = f"{100 * shares[i]:.0f} %" if i and math.isfinite(shares[i]) else ""
        why = ("BROKEN: " if trace.broken[i, place] else "") + trace.because[i]
        cells = (name, f"{trace.values[i, place]:.4g}", f"×{slacks[i]:.4g}" if i else "", share)
        table.add_row(*cells, *([why] if because else []), style="bold red" if trace.broken[i, place] else "")
    return table


def _footnotes(console: Console, report: Report) -> None:
    for a, b, share in report.ordering:
        first, second, part = (a, b, share) if share >= 0.5 else (b, a, 1 - share)
        where = "every t" if part == 1 else f"{100 * part:.0f} % of all t"
        console.print(f"{first} has a smaller error than {second} at {where}")
    eps_g = report.certificates[0]
    accuracy = "without a certificate" if eps_g is None else f"accurate to {eps_g.value:.1e} ({standing(eps_g.side)})"
    console.print(f"errors are measured against a reference hypergradient, {accuracy}")
    above = ", ".join(f"{m} at {int((c.errors > c.floor).sum())} of {c.errors.size}" for m, c in report.curves.items())
    console.print(f"error and bound were compared where the error is above the rounding floor: {above}")
    console.print(Text(f"rounding floor: {FLOORS.get(report.floor_how, report.floor_how)}", style="dim"))
    console.print(Text(f"{report.seconds:.1f} s", style="dim"))

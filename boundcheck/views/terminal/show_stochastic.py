"""Output of `boundcheck check --method sid`: mean square error, bias and variance with their bounds, on one screen."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck.number_text import number, upward
from boundcheck.report import stochastic_words as words
from boundcheck.report.stochastic_curve import MeanEstimate, Measured, StochasticCurve
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.report.stochastic_summary import error_parts
from boundcheck.report.stochastic_verdict_words import verdict_sentence
from boundcheck.side import in_words, standing
from boundcheck.views.terminal import not_proved
from boundcheck.views.terminal.console import Screen
from boundcheck.views.terminal.show_details import STYLES

WIDTH = 100  # the width of the text without a terminal
WIDE = 96  # in terminals with at least so many columns, the table has the value of the bound
FEW = 2  # with more methods than this, the first screen has only the main quantities
MOST_ADVICE = 3  # the most advice on the first screen
MOST_REASONS = 2  # the most reasons on the first screen why constants are not proved
LEGEND = "E, V: mean and variance over runs, at the last point. ×: bound/estimate."


def as_text(report: StochasticReport, width: int = WIDTH, verbose: bool = False) -> str:
    """Return the output in the terminal as text, without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, color_system=None)
    show(report, verbose, console=console)
    return out.getvalue()


def show(report: StochasticReport, verbose: bool = False, source: str = "", *, console: Console | None = None) -> None:
    """Print the answer, a row for each measured quantity, and what to do next; with `verbose`, also everything else.

    `source` is the name of the problem on the command line.
    """
    console = console or Screen(highlight=False)
    _answer(console, report)
    console.print()
    if not all(error_parts(report, method).diverges for method in report.curves):
        console.print(_quantities(report, console.width))
        console.print(Text(LEGEND, style="dim"))
        console.print()
    _next_steps(console, report, verbose, source)
    if verbose:
        _details(console, report)


def _answer(console: Console, report: StochasticReport) -> None:
    name, _, rest = words.title(report).partition(": ")
    console.print(Text.assemble((name, "bold"), f"  {rest}"))
    console.print(Text(f"{verdict_sentence(report)}.", style=STYLES[report.verdict]))
    for i, method in enumerate(list(report.curves)[:FEW]):
        console.print(Text(words.measured_sentence(report, method, shares=i == 0)))
    console.print(Text(f"{words.how_it_ran(report)}. {words.intervals_sentence(report)}", style="dim"))
    for sentence in words.doubts(report):
        console.print(Text(sentence, style="yellow"))
    for sentence in not_proved.sentences([report.constants])[:MOST_REASONS]:
        console.print(Text(sentence, style="yellow"))
    for sentence in report.refuted:
        console.print(Text(f"not used: {sentence}", style="bold red"))


def _quantities(report: StochasticReport, width: int) -> Table:
    """Return the measured quantities at the last point with their best bounds; for many methods only the main ones."""
    wide, several = width >= WIDE, len(report.curves) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0))
    table.add_column("quantity", no_wrap=True)
    for title in ("estimate", "interval"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("best bound", no_wrap=True)
    for title in (*(["bound"] if wide else []), "×"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    shown = list(Measured)[: None if not several else 4 if len(report.curves) <= FEW else 2]
    for curve in report.curves.values():
        if several:
            table.add_row(Text(curve.method, style="bold"))
        for quantity in shown:
            if quantity.value in curve.means:
                table.add_row(*_row(curve, curve.means[quantity.value], wide))
    return table


def _row(curve: StochasticCurve, mean: MeanEstimate, wide: bool) -> list[str | Text]:
    best = curve.best(mean.quantity)
    cells: list[str | Text] = [Text(mean.quantity.formula), number(float(mean.value[-1])), words.interval(mean, -1)]
    if best is None:
        return [*cells, "none applies", *["–"] * wide, "–", ""]
    ratio = number(float(curve.ratio(best.name)[-1]))
    values = [number(float(best.values[-1]))] * wide
    return [*cells, best.name, *values, ratio, Text(words.status(best), style=STYLES[best.verdict])]


def _next_steps(console: Console, report: StochasticReport, verbose: bool, source: str) -> None:
    steps = words.next_steps(report)
    console.print("What to do next", style="bold")
    for step in steps[: None if verbose else MOST_ADVICE]:
        console.print(Text(f"- {step}"))
    if not verbose:
        more = "--verbose" if source else "table(verbose=True)"
        console.print(f"- {more} shows every bound, point and constant.")


def _details(console: Console, report: StochasticReport) -> None:
    """Print every bound, every point and every constant."""
    for curve in report.curves.values():
        if any(bound.applies for bound in curve.bounds.values()):
            console.print()
            console.print(_bounds(curve, console.width))
        for reason, names in words.reasons(curve).items():
            console.print(Text(f"{', '.join(names)}: {reason}", style="dim"))
    for why, names in words.reasons_not_applicable(report).items():
        console.print(Text(f"not applicable: {', '.join(names)}: {why}", style="dim"))
    for curve in report.curves.values():
        console.print()
        console.print(_points(curve))
    if report.constants:
        console.print()
        console.print(_constants(report))
    console.print()
    for sentence in _footnotes(report):
        console.print(Text(sentence, style="dim"))


def _bounds(curve: StochasticCurve, width: int) -> Table:
    """Return a table of the bounds that apply: bound/estimate over the points, and the verdict."""
    table = _titled(f"{curve.method}: bound/estimate over all points")
    for title in ("bound", *(["theorem"] if width >= WIDE else []), "of"):
        table.add_column(title, no_wrap=title != "theorem")
    for title in ("least", "largest", "at end"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for bound in curve.bounds.values():
        if bound.applies:
            ratio = curve.ratio(bound.name)
            known = ratio[np.isfinite(ratio)]
            ends = (known.min(), known.max()) if known.size else (np.nan, np.nan)
            numbers = [number(float(x)) for x in (*ends, ratio[-1])]
            theorem = [bound.reference] * (width >= WIDE)
            verdict = Text(bound.verdict.value.replace("with high probability", "(prob.)"), STYLES[bound.verdict])
            table.add_row(bound.name, *theorem, Text(bound.quantity.formula), *numbers, verdict)
    return table


def _points(curve: StochasticCurve) -> Table:
    """Return a table of the estimates and their intervals at every point."""
    table = _titled(f"{curve.method}: estimates and intervals at every point")
    table.padding = (0, 1, 0, 0)
    for title in ("t", "k"):
        table.add_column(title, justify="right", no_wrap=True)
    for mean in curve.means.values():
        table.add_column(Text(mean.quantity.formula), justify="right", no_wrap=True)
    for i, (t, k) in enumerate(zip(curve.t.tolist(), curve.k.tolist(), strict=True)):
        cells = [f"{number(float(mean.value[i]))}\n{words.interval(mean, i, '…')}" for mean in curve.means.values()]
        table.add_row(str(t), str(k), *cells)
    return table


def _constants(report: StochasticReport) -> Table:
    ball = "around w*" if report.radius is None else f"on the ball of all iterates, radius {number(report.radius)}"
    table = _titled(f"constants {ball}")
    table.add_column("name", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("status")
    table.add_column("how")
    for c in report.constants.values():
        table.add_row(c.name, f"{c.value:.4g}", in_words(c.side, c.name), Text(c.provenance.how))
    return table


def _titled(title: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left")
    table.title_style = "bold"
    return table


def _footnotes(report: StochasticReport) -> Iterator[str]:
    yield f"‖∇f‖ = {number(report.gradient_norm)}"
    eps_g = report.certificate
    accuracy = "without a certificate" if eps_g is None else f"accurate to {eps_g.value:.1e} ({standing(eps_g.side)})"
    yield f"errors are measured against a reference hypergradient, {accuracy}"
    if report.largest_error is not None:
        yield f"‖g − ∇f‖ ≤ {upward(report.largest_error)} for every draw, which the intervals rest on"
    yield f"{report.seconds:.1f} s"

"""Output of `boundcheck check`: the answer on one screen; with `--verbose`, also every bound and proof."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck.ball import BallKind
from boundcheck.number_text import percent
from boundcheck.report.report import Report
from boundcheck.report.summary import BestBound, Course, MethodSummary
from boundcheck.views.terminal import not_proved, show_details
from boundcheck.views.terminal.console import Screen, number

WIDTH = 100  # the width of the text without a terminal
MOST_REASONS = 2  # the most reasons on the first screen
WIDE = 110  # in terminals with at least so many columns, the table has all columns
NARROW = 76  # in terminals with fewer columns, the table has the fewest columns
LEGEND = (
    "t: lower-level steps (k: those of the linear solver{as_many}). angle: between g and ∇f. "
    "tight: within 10 times the error; loose: within 1000; vacuous: beyond."
)
COURSES = {  # the words for one method, and for several methods
    Course.CONVERGES: ("converges", "converge"),
    Course.FALLS: ("has an error below that at the start", "have errors below those at the start"),
    Course.ROUNDING: ("has converged", "have converged"),
    Course.STALLS: ("has an error that does not fall yet", "have errors that do not fall yet"),
    Course.DIVERGES: ("diverges", "diverge"),
}


def as_text(report: Report, width: int = WIDTH, verbose: bool = False) -> str:
    """Return the output in the terminal as text, without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, color_system=None)
    show(report, console, verbose=verbose)
    return out.getvalue()


def show(
    report: Report,
    console: Console | None = None,
    *,
    verbose: bool = False,
    trace_t: int | None = None,
    source: str = "",
) -> None:
    """Print the answer, a row for each method, and what to do next; with `verbose`, also everything else.

    `source` is the name of the problem on the command line.
    """
    console = console or Screen(highlight=False)
    _answer(console, report)
    console.print(_methods(report, console.width))
    as_many = "" if any(":" in method for method in report.curves) else ", k = t"
    console.print(Text(LEGEND.format(as_many=as_many), style="dim"))
    for line in _blocked(report):
        console.print(Text(line, style="yellow"))
    _next_steps(console, report, source)
    if verbose:
        console.print()
        show_details.show(report, console, trace_t)


def _answer(console: Console, report: Report) -> None:
    p, summary = report.problem, report.summary
    console.print(
        f"[bold]{p['name']}[/bold]  d = {p['dim']}, n = {p['hdim']}, {p['dynamics']}, {p['dtype']} on {p['device']}"
    )
    console.print(Text(summary.verdict_sentence, style=show_details.STYLES[summary.verdict]))
    console.print(_errors(report))
    console.print(_descent(report))
    if summary.step_sentence:
        console.print(summary.step_sentence)
    if (sentence := _steps(report)) is not None:
        console.print(sentence)
    for method, why in report.refused.items():
        console.print(Text(f"{method} was not run: {why}", style="yellow"))
    if None in report.certificates:
        console.print(Text("The errors are estimates: the reference hypergradient has no certificate.", style="yellow"))
    for sentence in report.refuted:
        console.print(Text(f"not used: {sentence}", style="bold red"))
    console.print()


def _errors(report: Report) -> Text:
    """Return sentences on whether the run converges and how large the error is."""
    methods = report.summary.methods
    text = Text()
    for course in dict.fromkeys(m.course for m in methods):
        some = [m.method for m in methods if m.course is course]
        whole = len(some) == len(methods)
        words = f"{'The run' if whole else _list(some)} {COURSES[course][not whole and len(some) > 1]}. "
        text.append(words, style="bold red" if course in (Course.STALLS, Course.DIVERGES) else "")
    if all(m.course is Course.ROUNDING for m in methods):
        return text.append(f"At t = {methods[0].t} only rounding is left of the error.")
    several = f" on average over {report.samples} values of λ" if report.samples > 1 else ""
    unit = " of ‖∇f‖" if methods[0].relative_error is not None else ""
    if not unit and report.gradient_norms:
        text.append("∇f is 0 up to rounding, so errors are absolute. ")
    text.append(f"At t = {methods[0].t} the error is ")
    text.append(_list([f"{_size(m)} ({m.method})" for m in methods]), style="bold")
    text.append(f"{unit}{several}.")
    return text


def _descent(report: Report) -> str:
    """Return a sentence on the methods for which −g is a descent direction."""
    methods = report.summary.methods
    where = " at the first λ" if report.samples > 1 else ""
    known = f"({methods[0].known}, by comparison with an accurate ∇f{where})"
    descends, fails, unknown = ([m.method for m in methods if m.descent is x] for x in (True, False, None))
    if len(descends) == len(methods):
        return f"−g is a descent direction for every method {known}."
    parts = [f"−g is a descent direction for {_list(descends)} {known}"] if descends else []
    parts += [f"−g is not a descent direction for {_list(fails)} {known}"] if fails else []
    parts += [f"it is not known whether −g is a descent direction for {_list(unknown)}"] if unknown else []
    return f"{parts[0][0].upper()}{'; '.join(parts)[1:]}."


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _size(method: MethodSummary) -> str:
    if method.course is Course.ROUNDING:
        return "rounding"
    return number(method.error) if method.relative_error is None else percent(method.relative_error)


def _steps(report: Report) -> str | None:
    """Return a sentence on the least steps for an error of 1%, measured and proved."""
    methods = report.summary.methods
    needs = [m for m in methods if m.steps.needed is not None]
    proofs = [m for m in methods if m.steps.guaranteed is not None]
    parts = []
    if needs:
        parts.append(_cheapest(sorted(needs, key=lambda m: (not m.steps.measured, m.steps.needed or 0))))
    if proofs:
        best = min(proofs, key=lambda m: m.steps.guaranteed or 0)
        parts.append(f"{best.method} with {_t_and_k(best, best.steps.guaranteed)} is proved to be enough")
    return f"For an error of 1%: {'; '.join(parts)}." if parts else None


def _cheapest(methods: Sequence[MethodSummary]) -> str:
    """Return what the cheapest method needs; for estimates, what all methods need that may be the cheapest."""
    best, *others = methods
    if best.steps.measured:
        return f"{best.method} needs {_t_and_k(best, best.steps.needed)} (measured)"
    close = [best, *(m for m in others if not best.steps.is_less(m.steps))]
    about = _list([f"{_t_and_k(m, m.steps.needed)} ({m.method})" for m in close])
    if len(close) == 1:
        return f"{best.method} may need about {_t_and_k(best, best.steps.needed)} (estimated from the end of the run)"
    return f"about {about}, too close to say which is cheapest (estimated from the end of the run)"


def _t_and_k(method: MethodSummary, t: int | None) -> str:
    return f"t = {t}" if method.k is None else f"t = k = {t}" if method.k == method.t else f"t = {t}, k = {method.k}"


def _methods(report: Report, width: int) -> Table:
    """Return a table with a row for each method: error, angle, steps for 1%, best bound; more if it is wide."""
    wide, narrow = width >= WIDE, width < NARROW
    table = Table(box=None, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0))
    table.add_column("method", no_wrap=True, style="bold")
    for title in ("error", *([] if narrow else ["angle"]), "t for 1%", *(["proved at t"] if wide else [])):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("best bound", *(["kind"] if wide else []), *([] if narrow else ["status"])):
        table.add_column(title, no_wrap=True)
    table.add_column("bound/error", justify="right", no_wrap=True)
    table.add_column("grade", no_wrap=True)
    for m in report.summary.methods:
        steps, best = m.steps, m.best
        cells = [m.method, _size(m)] + ["–" if m.angle is None else _angle(m.angle)] * (not narrow)
        cells.append("–" if steps.needed is None else f"{'' if steps.measured else '≈ '}{steps.needed}")
        cells += ["–" if steps.guaranteed is None else str(steps.guaranteed)] * wide
        cells += ["none" if best is None else best.name] + ["" if best is None else best.kind] * wide
        cells += ["–" if best is None else best.known] * (not narrow)
        cells += ["–", ""] if best is None else [number(best.ratio), _grade(best)]
        table.add_row(*cells)
    return table


def _angle(degrees: float) -> str:
    if degrees >= 180:
        return "–"
    return "< 0.001°" if degrees < 1e-3 else f"{degrees:.0f}°" if degrees >= 10 else f"{degrees:.2g}°"


def _grade(best: BestBound) -> str:
    return "" if best.grade is None else best.grade.value


def _blocked(report: Report) -> Iterator[str]:
    """Yield why no bound of a method is proved, each reason once; then the operations or lines without a proof."""
    reasons: dict[str, list[str]] = {}
    for m in report.summary.methods:
        if m.blocked:
            reason = m.blocked.partition(": ")[2]
            reasons.setdefault(reason, []).append(m.method)
    for reason, methods in list(reasons.items())[:MOST_REASONS]:
        yield f"No bound for {_list(methods)} is proved: {reason}"
    yield from not_proved.sentences([report.constants[BallKind.LOCAL]])[:MOST_REASONS]


def _as_asked(step: str, source: str) -> str:
    """Return a piece of advice; for a step size, with the place to set it: an option, or the user's code."""
    if not step.startswith("Take step_size="):
        return step
    if source and ".py:" not in source:
        return step.replace("Take ", "Add --set-problem ", 1)
    return f"{step.removesuffix('.')} in Problem.from_loss."


def _next_steps(console: Console, report: Report, source: str) -> None:
    steps, methods = report.summary.next_steps, report.summary.methods
    console.print()
    console.print("What to do next", style="bold")
    for step in steps:
        console.print(f"- {_as_asked(step, source)}")
    if any(m.steps.needed is not None or m.steps.guaranteed is not None for m in methods):
        plan = f"boundcheck plan {source} --rtol 0.01" if source else "bc.plan(problem, rtol=0.01)"
        console.print(f"- {plan} finds the cheapest t and k for 1%.")
    more = "--verbose" if source else "table(verbose=True)"
    console.print(f"- {more} shows every bound and where its proof is loose.")

"""Output of `boundcheck constants`, as text or JSON: the constants of a problem and the step size to use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck import __version__
from boundcheck.ball import BallKind
from boundcheck.constants import Constant, Constants
from boundcheck.explanation import Explanation
from boundcheck.json_numbers import SCHEMA
from boundcheck.side import Side, in_words
from boundcheck.theory import step_sizes
from boundcheck.theory.step_advice import PLACES, StepAdvice, contraction
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.terminal import not_proved
from boundcheck.views.terminal.console import Screen

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem

WIDTH = 100  # the most columns for sentences; longer lines are hard to read


def as_json(
    problem: Problem,
    constants: Constants,
    explanations: Mapping[str, Explanation] | None = None,
    ball: str = BallKind.PAPER.value,
    local: Constants | None = None,
) -> dict[str, Any]:
    """Return the result as JSON, without NaN or infinity; explanations are under "explain"."""
    sizes = step_sizes.from_constants(constants)
    advice = _advice(problem, constants, ball, local)
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "problem": problem.about(),
        "constants": constants.as_json(),
        "step_sizes": None if sizes is None else sizes.as_json(),
        "advice": None if advice is None else advice.as_json(),
    }
    if explanations:
        content["explain"] = {name: explanation.as_json() for name, explanation in explanations.items()}
    return content


def show(
    problem: Problem,
    constants: Constants,
    ball: str = BallKind.PAPER.value,
    local: Constants | None = None,
    *,
    verbose: bool = False,
    console: Console | None = None,
) -> None:
    """Print sentences, and a table with name, value and how it is known; if `verbose`, also meaning and source.

    If `constants` are on another ball, `local` has the constants on the ball of the iterates, for the step size.
    """
    console = console or Screen(highlight=False)
    console.print(f"[bold]{problem.name}[/bold]  d = {problem.d}, n = {problem.n}, {problem.dynamics.name}")
    say(console, _contraction(constants, ball), _style(constants))
    advice = _advice(problem, constants, ball, local)
    if advice is not None:
        say(console, f"{advice.sentence[0].upper()}{advice.sentence[1:]}.")
    say(console, _proved(constants))
    for sentence in not_proved.sentences([constants]):
        say(console, sentence, "yellow")
    for constant in constants.values():
        if constant.provenance.refuted:
            say(console, f"not used: {constant.provenance.refuted}", "yellow")
    console.print()
    if verbose:
        console.print(_long_table(constants))
        show_steps(console, constants, problem.about()["step"])
    else:
        console.print(_table(constants))
    _hints(console, constants, verbose)


def _advice(problem: Problem, constants: Constants, ball: str, local: Constants | None) -> StepAdvice | None:
    chosen = problem.about()["step"]
    if local is None:
        return step_sizes.advise(constants, chosen=chosen, ball=ball)
    return step_sizes.advise(local, constants, chosen)


def say(console: Console, text: str, style: str = "") -> None:
    """Print a paragraph in lines of at most WIDTH columns."""
    console.print(Text(text, style=style), width=min(console.width, WIDTH))


def standing_of(constant: Constant) -> str:
    """Return how a constant is known, with the probability if it is not certain."""
    words, delta = in_words(constant.side, constant.name), constant.provenance.delta
    return f"{words}, 1 − {delta:g}" if constant.side is Side.HIGH_PROBABILITY and delta is not None else words


def _contraction(constants: Constants, ball: str) -> str:
    """Return a sentence on whether Φ contracts on the ball and at w*, with the condition number."""
    q, place = constants["q"], PLACES[BallKind(ball)]
    kappa, at_solution = constants.get("kappa"), constants.get("q_star")
    value = contraction(q.value, q.side)
    if q.value < 1:
        verb = "contracts" if q.is_safe else "seems to contract"
        line = f"Φ {verb} {place}: {value} ({in_words(q.side, 'q')})"
    elif q.side in (Side.EXACT, Side.LOWER):
        line = f"Φ is not a contraction {place}: {value}, so no bound of the paper applies there"
    else:
        line = f"Φ is not known to be a contraction {place}: {value} ({in_words(q.side, 'q')})"
    if q.value >= 1 and at_solution is not None:
        line += f"; at w* {contraction(at_solution.value, at_solution.side)}"
    return line + (f". κ = {kappa.value:.4g} ({in_words(kappa.side, 'kappa')})." if kappa is not None else ".")


def _style(constants: Constants) -> str:
    return "bold red" if constants["q"].value >= 1 else "bold"


def _proved(constants: Constants) -> str:
    """Return a sentence on how many constants are proved, and which are not."""
    names = [name for name in QUANTITIES if name in constants]
    probable = [name for name in names if constants[name].side is Side.HIGH_PROBABILITY]
    estimated = [name for name in names if not constants[name].is_safe and name not in probable]
    if not probable and not estimated:
        return f"All {len(names)} constants are proved."
    line = f"{len(names) - len(probable) - len(estimated)} of {len(names)} constants are proved"
    line += f"; probable: {', '.join(probable)}" if probable else ""
    return line + (f"; estimated: {', '.join(estimated)}." if estimated else ".")


def _table(constants: Constants) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("how it is known", no_wrap=True)
    for name in (n for n in QUANTITIES if n in constants):
        constant = constants[name]
        table.add_row(name, f"{constant.value:.6g}", standing_of(constant), style=_row_style(constant))
    return table


def _row_style(constant: Constant) -> str:
    return "" if constant.is_safe else "yellow"


def _long_table(constants: Constants) -> Table:
    """Return a table with the value of each constant, how it is known, its meaning, and its source."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for name in (n for n in QUANTITIES if n in constants):
        constant, products = constants[name], constants[name].provenance.products
        spent = f" ({products} product{'s' if products > 1 else ''})" if products else ""
        text = Text(f"{standing_of(constant)}: {QUANTITIES[name].meaning}\n", style=_row_style(constant))
        text.append(f"{constant.provenance.how}{spent}", style="dim")
        table.add_row(name, f"{constant.value:.6g}", text)
    return table


def _hints(console: Console, constants: Constants, verbose: bool) -> None:
    lines = [] if verbose else ["--verbose shows the meaning and the source of each constant, and momentum steps."]
    if any(constant.provenance.reference == "program" for constant in constants.values()):
        lines.append("--explain NAME shows what each operation of your code adds to a constant.")
    for line in lines:
        console.print(line, style="dim")


def show_steps(console: Console, constants: Constants, chosen: str | None) -> None:
    """Print a line for each method with step sizes from μ and L."""
    sizes = step_sizes.from_constants(constants)
    if sizes is None:
        return
    best, current = sizes.best, sizes.own
    where = "" if sizes.proved else " at w*"
    console.print("\n[bold]step sizes from μ and L[/bold]" + ("" if sizes.proved else ", which are estimated"))
    console.print(f"gradient descent  α = 2/(μ+L) = {best.alpha:.6g}, q = {best.q:.6g}{where}, κ = {best.kappa:.6g}")
    if current is not None:
        by = " (default)" if chosen == "default" else ""
        console.print(f"current step      α = {current.alpha:.6g}{by}, q = {current.q:.6g}{where}")
    for method in (sizes.heavy_ball, sizes.nesterov):
        console.print(
            f"{method.name:17s} α = {method.alpha:.6g}, β = {method.beta:.6g}, rate {method.rate:.6g} on quadratics"
        )

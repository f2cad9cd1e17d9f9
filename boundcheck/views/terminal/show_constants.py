"""`boundcheck constants`: the constants of a problem and the step sizes they give, for a person or for a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck import __version__
from boundcheck.constants import Constants
from boundcheck.explanation import Explanation
from boundcheck.side import Side
from boundcheck.theory import step_sizes
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.terminal import not_proved
from boundcheck.views.terminal.console import RELATION, Screen

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem


def as_json(
    problem: Problem, constants: Constants, explanations: Mapping[str, Explanation] | None = None
) -> dict[str, Any]:
    """Everything, without NaN or infinity; explanations under "explain" if there are any."""
    sizes = step_sizes.from_constants(constants)
    content = {
        "schema": 1,
        "version": __version__,
        "problem": problem.about(),
        "constants": constants.as_json(),
        "step_sizes": None if sizes is None else sizes.as_json(),
    }
    if explanations:
        content["explain"] = {name: explanation.as_json() for name, explanation in explanations.items()}
    return content


def show(problem: Problem, constants: Constants) -> None:
    """A table: name, meaning, value, side, how, products; then what follows for step sizes."""
    console = Screen(highlight=False)
    console.print(f"[bold]{problem.name}[/bold]  d = {problem.d}, n = {problem.n}, {problem.dynamics.name}")
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    for title in ("side", "meaning", "how"):
        table.add_column(title)
    table.add_column("products", justify="right")
    for name in (n for n in QUANTITIES if n in constants):
        constant = constants[name]
        side, how = RELATION[constant.side], constant.provenance.how
        if constant.provenance.delta is not None and constant.side is Side.HIGH_PROBABILITY:
            side = f"{side} 1−{constant.provenance.delta:g}"
        products = constant.provenance.products
        spent = "" if products is None else str(products)
        table.add_row(name, f"{constant.value:.6g}", side, QUANTITIES[name].meaning, how, spent)
    console.print(table)
    for sentence in not_proved.sentences([constants]):
        console.print(Text(sentence, style="yellow"))
    _contraction(console, constants)
    show_steps(console, constants)
    if any(constant.provenance.reference == "program" for constant in constants.values()):
        console.print("--explain NAME shows what each operation of your code adds to a constant.", style="dim")


def _contraction(console: Console, constants: Constants) -> None:
    q = constants["q"]
    if q.value < 1:
        return
    if q.side in (Side.EXACT, Side.LOWER):
        line = f"Φ is not a contraction: q = {q.value:.4g} ≥ 1, so no bound of the paper applies."
    else:
        line = f"Φ is not known to be a contraction: q is at most {q.value:.4g} ≥ 1, so no bound of the paper applies."
    mu, L, alpha = (constants.get(name) for name in ("mu", "L", "alpha"))
    if mu is not None and mu.value <= 0 and mu.side in (Side.EXACT, Side.UPPER):
        line += f" ℓ is not strongly convex (μ = {mu.value:.4g} ≤ 0), so gradient descent contracts for no α."
    elif L is not None and L.value > 0:
        where = "" if L.side in (Side.EXACT, Side.UPPER) else " at w*"
        line += f" Gradient descent contracts{where} for α < 2/L = {2 / L.value:.4g}"
        line += f", and yours is α = {alpha.value:.4g}." if alpha is not None else "."
    console.print(line, style="bold red")


def show_steps(console: Console, constants: Constants) -> None:
    """Print a line for each method whose step sizes follow from μ and L."""
    sizes = step_sizes.from_constants(constants)
    if sizes is None:
        return
    best, own_step = sizes.best, sizes.own
    console.print(
        f"gradient descent  α* = 2/(μ+L) = {best.alpha:.6g}, q = {best.q:.6g}, κ = {best.kappa:.6g}; "
        f"contracts for α < {best.largest_alpha:.6g}"
    )
    if own_step is not None:
        verdict = "contracts" if own_step.contracts else "does not contract"
        where = "" if sizes.proved else " at w*"
        console.print(f"your own step     α = {own_step.alpha:.6g}, q = {own_step.q:.6g}{where}: {verdict}")
    for method in (sizes.heavy_ball, sizes.nesterov):
        console.print(
            f"{method.name:17s} α = {method.alpha:.6g}, β = {method.beta:.6g}, rate {method.rate:.6g} on quadratics"
        )
    if not sizes.proved:
        console.print("μ and L are not proved for all w, so these step sizes are estimates too.", style="dim")

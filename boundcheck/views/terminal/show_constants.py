"""`boundcheck constants`: the constants of a problem and the step sizes they give, for a person or for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from boundcheck import __version__
from boundcheck.constants import Constants, Side
from boundcheck.errors import InputError
from boundcheck.theory import step_sizes
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.terminal.console import RELATION, Screen

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem


def _vouched(constants: Constants) -> bool:
    """Are μ and L on the sides on which a step that contracts for them contracts for the truth?"""
    mu, L = constants["mu"].side, constants["L"].side
    return mu in (Side.EXACT, Side.LOWER) and L in (Side.EXACT, Side.UPPER)


def steps(constants: Constants) -> dict[str, Any] | None:
    """What μ and L give: the best gradient step, whether the problem's own contracts, and the momentum methods.

    `proved` is false where μ and L are measured at w* alone or with some probability only: then these are estimates.
    """
    if not {"mu", "L"} <= set(constants) or constants["mu"].value <= 0:
        return None
    mu, L = constants["mu"].value, constants["L"].value
    try:
        best = step_sizes.gradient_descent(mu, L)
        heavy, nesterov = step_sizes.heavy_ball(mu, L), step_sizes.nesterov(mu, L)
    except InputError:
        return None
    found: dict[str, Any] = {
        "proved": _vouched(constants),
        "gradient-descent": {
            "alpha": best.alpha,
            "q": best.q,
            "kappa": best.kappa,
            "largest_alpha": best.largest_alpha,
        },
    }
    for method in (heavy, nesterov):
        found[method.name] = {"alpha": method.alpha, "beta": method.beta, "rate": method.rate}
    if "alpha" in constants:
        own, q = step_sizes.gradient_descent(mu, L, constants["alpha"].value), constants["q"]
        refuted = q.value >= 1 and q.side in (Side.EXACT, Side.LOWER)  # somewhere on the ball, if not at w*
        found["own"] = {"alpha": own.alpha, "q": own.q, "contracts": own.contracts and not refuted}
    return found


def as_json(problem: Problem, constants: Constants) -> dict[str, Any]:
    """Everything, without NaN or infinity."""
    return {
        "schema": 1,
        "version": __version__,
        "problem": problem.about(),
        "constants": constants.as_json(),
        "step_sizes": steps(constants),
    }


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
    _contraction(console, constants)
    show_steps(console, constants)


def _contraction(console: Console, constants: Constants) -> None:
    q = constants["q"]
    if q.value < 1:
        return
    if q.side in (Side.EXACT, Side.LOWER):
        line = f"Φ is no contraction: q = {q.value:.4g} ≥ 1, so no bound of the paper applies."
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
    """A line for each method of which μ and L give the steps."""
    found = steps(constants)
    if found is None:
        return
    best = found["gradient-descent"]
    console.print(
        f"gradient descent  α* = 2/(μ+L) = {best['alpha']:.6g}, q = {best['q']:.6g}, κ = {best['kappa']:.6g}; "
        f"contracts for α < {best['largest_alpha']:.6g}"
    )
    if own := found.get("own"):
        verdict = "contracts" if own["contracts"] else "does not contract"
        where = "" if found["proved"] else " at w*"
        console.print(f"your own step     α = {own['alpha']:.6g}, q = {own['q']:.6g}{where}: {verdict}")
    for name in ("heavy-ball", "nesterov"):
        method = found[name]
        console.print(
            f"{name:17s} α = {method['alpha']:.6g}, β = {method['beta']:.6g}, rate {method['rate']:.6g} on quadratics"
        )
    if not found["proved"]:
        console.print("μ and L are not proved for all w, so these step sizes are estimates too.", style="dim")

"""Output of `boundcheck worst`: the worst instance as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.terminal.console import Screen

if TYPE_CHECKING:
    from boundcheck.worst_case.worst import Worst

TERMS = {"eta_2": "η₂: ∇₂E at w_t", "eta_1": "η₁: ∇₁E at w_t", "nu_2": "ν₂: ∂₂Φ changes", "nu_1": "ν₁: ∂₁Φ changes"}
UNFINISHED = "what is left of w', or of the solve"
SHOWN_CONSTANTS = (
    "q",
    "kappa",
    "nu_1",
    "nu_2",
    "eta_1",
    "eta_2",
    "L_E",
    "L_Phi",
    "L_Phi_star",
    "D",
    "W",
    "g_star",
    "q_star",
)


def show(worst: Worst, console: Console | None = None, out: str = "", run_with: str = "") -> None:
    """Print the ratio, then the terms and constants at the instance, and then the effort of the search.

    `out` is the folder of the written instance, and `run_with` the command that runs it.
    """
    console = console or Screen(highlight=False)
    target, family = worst.target, worst.found.family
    where = f"q = {family.q:g}, t = {worst.t}" + ("" if worst.k is None else f", k = {worst.k}")
    console.print(f"[bold]{worst.bound}[/bold]  {target.claim or target.bound.reference}; {where}, d = {worst.dim}")
    console.print(_verdict(worst))
    console.print(Text(f"in 50 digits: error {worst.exact.digits('error')}", "dim"))
    console.print(Text(f"              bound {worst.exact.digits('bound')}", "dim"))
    console.print()
    if worst.exact.terms:
        console.print(_terms(worst))
        console.print()
    console.print(_constants(worst))
    console.print()
    dims = ", ".join(f"{ratio:.6f} for d = {d}" for d, ratio in worst.by_dim.items())
    console.print(f"best of each dimension: {dims}")
    if abs(worst.found.ratio - worst.ratio) > 1e-6 * worst.ratio:
        console.print(Text(f"in doubles the ratio would be {worst.found.ratio:.6g}: rounding", "yellow"))
    if worst.found.interrupted:
        console.print(Text("interrupted: this is the best so far", "yellow"))
    tried = f"{worst.starts} random starts, {worst.evaluations} instances, seed {worst.seed}, {worst.seconds:.1f} s"
    console.print(Text(f"tried: {tried}", "dim"))
    if out:
        console.print(f"written to {out}")
        console.print(Text(run_with, "dim"), soft_wrap=True)


def _verdict(worst: Worst) -> Text:
    ratio = worst.exact.digits("ratio")
    if worst.refuted:
        return Text(f"refuted: error/bound = {ratio}", "bold red")
    about = "attained" if worst.ratio > 1 - 1e-3 else "not refuted"
    return Text(f"{about}: the largest error/bound found is {ratio}", "bold green")


def _terms(worst: Worst) -> Table:
    table = Table(box=None, pad_edge=False, title="terms of the bound", title_justify="left", title_style="bold")
    for title in ("term", "share of the bound", "attained"):
        table.add_column(title, justify="left" if title == "term" else "right")
    for term in worst.exact.terms:
        attained = "–" if term.attained is None else f"{100 * term.attained:.1f} %"
        table.add_row(TERMS.get(term.name, UNFINISHED), f"{100 * term.share:.1f} %", attained)
    return table


def _constants(worst: Worst) -> Table:
    table = Table(box=None, pad_edge=False, title="constants of the instance", title_justify="left", title_style="bold")
    for title in ("constant", "value", "meaning"):
        table.add_column(title, justify="right" if title == "value" else "left", no_wrap=title != "meaning")
    for name in SHOWN_CONSTANTS:
        value = worst.exact.constants.get(name)
        if value is not None:
            table.add_row(QUANTITIES[name].text or name, f"{value:.6g}", Text(QUANTITIES[name].meaning, "dim"))
    return table

"""`boundcheck plan`: step sizes, and the t and k for an accuracy, for a person or for a program."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck import __version__
from boundcheck.side import Side
from boundcheck.theory import step_sizes
from boundcheck.views.terminal import show_constants
from boundcheck.views.terminal.console import WORTH, Screen

if TYPE_CHECKING:
    from boundcheck.compare.guarantees import Plan


def as_json(plan: Plan) -> dict[str, Any]:
    """Everything, without NaN or infinity."""
    cheapest = plan.cheapest
    sizes = step_sizes.from_constants(plan.constants)
    return {
        "schema": 1,
        "version": __version__,
        "problem": plan.problem.about(),
        "eps": plan.eps,
        "constants": plan.constants.as_json(),
        "step_sizes": None if sizes is None else sizes.as_json(),
        "costs": asdict(plan.costs),
        "offers": [{**asdict(o), "side": o.side.value} for o in plan.offers],
        "guarantees": [{**asdict(g), "side": g.side.value} for g in plan.guarantees],
        "silent": plan.silent,
        "measured": plan.measured,
        "floor": plan.floor if math.isfinite(plan.floor) else None,
        "cheapest": None if cheapest is None else cheapest.method,
    }


def memory(size: float) -> str:
    """Bytes in the largest fitting unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def show(plan: Plan, console: Console | None = None) -> None:
    """Step sizes, the guarantees, and what a run needed."""
    console = console or Screen(highlight=False)
    p = plan.problem
    q = plan.constants["q"]
    console.print(f"[bold]{p.name}[/bold]  d = {p.d}, n = {p.n}, {p.dynamics.name}, q = {q.value:.6g} ({q.side.value})")
    show_constants.show_steps(console, plan.constants)
    console.print(f"a step of the linear solver costs {plan.costs.ratio:.2g} inner steps (measured)\n")
    table = Table(box=None, pad_edge=False, title=f"error ≤ {plan.eps:g}", title_justify="left", title_style="bold")
    for header in ("method", "bound"):
        table.add_column(header, no_wrap=True)
    for header in ("t", "k", "cost", "memory", "error", "needs t", "k"):
        table.add_column(header, justify="right", no_wrap=True)
    for g in plan.guarantees:
        run = "not run" if g.error is None else f"{g.error:.1e}"
        t, k = ("–", "–") if g.needed is None else (str(g.needed[0]), str(g.needed[1] or "–"))
        style = "bold red" if g.met is False and g.side is not Side.LOWER else ""
        table.add_row(
            g.method, g.bound, str(g.t), "–" if g.k is None else str(g.k), f"{g.cost:.0f}", memory(g.memory),
            run, t, k, style=style,
        )  # fmt: skip
    console.print(table)
    console.print()
    console.print(_offers(plan))
    for method, reason in plan.silent.items():
        console.print(Text(reason, style="yellow"))
        if method in plan.measured:
            console.print(Text(f"  {_without_guarantee(plan, method)}", style="yellow"))
    weak = [g.method for g in plan.guarantees if g.side is Side.LOWER]
    if weak:
        words = f"{', '.join(weak)}: some constants are estimates from below, so nothing is guaranteed"
        console.print(Text(words, style="yellow"))
    for g in plan.guarantees:
        if g.met is False and g.error is not None and g.side is not Side.LOWER:
            dtype = str(p.dtype).removeprefix("torch.")
            rounding = f"rounding in {dtype} may leave as much as {plan.floor:.0e}; ask for a larger eps"
            wrong = f"more than rounding ({plan.floor:.0e} at most): boundcheck check says which constant is wrong"
            why = rounding if g.error <= plan.floor else wrong
            console.print(Text(f"{g.method} missed it, with an error of {g.error:.1e}: {why}", style="bold red"))
    if (best := plan.cheapest) is not None and not weak:
        k = f", k = {best.k}" if best.k is not None else ""
        console.print(f"cheapest with a guarantee: {best.method}, t = {best.t}{k} ({best.cost:.0f} inner steps)")


def _without_guarantee(plan: Plan, method: str) -> str:
    """What a run needed, for a method without a guarantee."""
    t = plan.measured[method]
    if t is None:
        return f"without a guarantee: the error of {method} did not stay below {plan.eps:g} in {plan.longest_run} steps"
    k = "" if method == "itd" else f", k = {t}"
    return f"without a guarantee: {method} had an error of at most {plan.eps:g} from t = {t}{k} on"


def _offers(plan: Plan) -> Table:
    """What every bound asks for."""
    table = Table(box=None, pad_edge=False, title="what each bound guarantees it with", title_justify="left")
    table.title_style = "bold"
    for header in ("method", "bound"):
        table.add_column(header, no_wrap=True)
    for header in ("t", "k", "cost"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("worth")
    for offer in plan.offers:
        k = "–" if offer.k is None else str(offer.k)
        table.add_row(offer.method, offer.bound, str(offer.t), k, f"{offer.cost:.0f}", WORTH[offer.side])
    return table

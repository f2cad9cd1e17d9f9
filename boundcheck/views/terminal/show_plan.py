"""Output of `boundcheck plan`, as text or JSON: the t and k for an accuracy, and the step size to use."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck import __version__
from boundcheck.json_numbers import SCHEMA, finite
from boundcheck.number_text import percent
from boundcheck.side import Side, standing
from boundcheck.theory import step_sizes
from boundcheck.views.terminal import show_constants
from boundcheck.views.terminal.console import Screen
from boundcheck.views.terminal.show_constants import say

if TYPE_CHECKING:
    from boundcheck.compare.guarantees import Guarantee, Plan
    from boundcheck.compare.measured_need import Need


def as_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON, without NaN or infinity."""
    cheapest, run = plan.cheapest, plan.cheapest_run
    sizes = step_sizes.from_constants(plan.constants)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "problem": plan.problem.about(),
        "eps": plan.eps,
        "rtol": plan.rtol,
        "gradient_norm": plan.gradient_norm,
        "constants": plan.constants.as_json(),
        "step_sizes": None if sizes is None else sizes.as_json(),
        "advice": None if plan.advice is None else plan.advice.as_json(),
        "costs": asdict(plan.costs),
        "offers": [{**asdict(o), "side": o.side.value} for o in plan.offers],
        "guarantees": [{**asdict(g), "side": g.side.value, "error": finite(g.error)} for g in plan.guarantees],
        "silent": plan.silent,
        "measured": plan.measured,
        "needs": {method: None if need is None else asdict(need) for method, need in plan.needs.items()},
        "not_reached": dict(plan.not_reached),
        "floor": finite(plan.floor),
        "cheapest": None if cheapest is None else cheapest.method,
        "cheapest_run": None if run is None else run.method,
    }


def memory(size: float) -> str:
    """Return bytes as text in a suitable unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def show(plan: Plan, console: Console | None = None, *, verbose: bool = False) -> None:
    """Print the cheapest t and k in a sentence, a row for each method, the step size to use, and what to do next."""
    console = console or Screen(highlight=False)
    p = plan.problem
    console.print(f"[bold]{p.name}[/bold]  d = {p.d}, n = {p.n}, {p.dynamics.name}")
    say(console, sentence(plan), "bold" if plan.guarantees or plan.cheapest_run else "bold red")
    console.print()
    if plan.guarantees or plan.cheapest_run:
        console.print(_table(plan))
        ratio = f"A step of the linear solver costs {plan.costs.ratio:.2g} lower-level steps"
        console.print(f"cost: in lower-level steps. {ratio} (measured).", style="dim")
        console.print()
    if plan.advice is not None:
        say(console, f"{plan.advice.sentence[0].upper()}{plan.advice.sentence[1:]}.")
    for line in _remarks(plan):
        say(console, line, "yellow")
    for g in plan.guarantees:
        if g.met is False and g.error is not None and g.side is not Side.LOWER:
            say(console, _missed(plan, g), "bold red")
    if verbose:
        _everything(console, plan)
    elif plan.offers:
        console.print("--verbose shows the t and k that each bound asks for, and memory.", style="dim")


def sentence(plan: Plan) -> str:
    """Return a sentence on the cheapest t and k, how they are known, and which were enough in a run."""
    goal, best, run = f"For an error of at most {accuracy(plan)}", plan.cheapest, plan.cheapest_run
    if best is not None and best.side is not Side.LOWER:
        known = standing(best.side)
        line = f"{goal}: {best.method} with {steps(best)} is enough ({known}, by {best.bound})."
        need = plan.needs.get(best.method)
        return line if need is None else f"{line} A run needed {steps(need)}."
    if run is not None:
        return f"{goal}: {run.method} with {steps(run)} was enough in a run (estimated; nothing is proved)."
    if best is not None:
        return f"{goal}: {best.method} with {steps(best)} (estimated, by {best.bound}; nothing is proved)."
    tried = ", and no run reached it" if plan.needs else ""
    return f"No t and k are known for an error of at most {accuracy(plan)}: nothing is guaranteed{tried}."


def accuracy(plan: Plan) -> str:
    """Return the accuracy as text, absolute and relative."""
    share = "" if plan.rtol is None else f" ({percent(plan.rtol)} of ‖∇f‖)"
    return f"{plan.eps:.4g}{share}"


def steps(of: Guarantee | Need) -> str:
    """Return the steps as text, as in "t = 40 and k = 12"."""
    return f"t = {of.t}" if of.k is None else f"t = {of.t} and k = {of.k}"


def _table(plan: Plan) -> Table:
    """Return a row for each method: t, k, their cost, how they are known, and the t and k that a run needed."""
    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for header in ("t", "k", "cost"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("how it is known", no_wrap=True)
    for header in ("run: t", "k", "cost"):
        table.add_column(header, justify="right", no_wrap=True)
    rows = {g.method: g for g in plan.guarantees}
    for method in (*rows, *(m for m in plan.needs if m not in rows)):
        need, guarantee = plan.needs.get(method), rows.get(method)
        if guarantee is None and need is None:
            continue
        of = guarantee or need
        known = "estimated from a run" if guarantee is None else f"{standing(guarantee.side)} by {guarantee.bound}"
        style = "bold red" if guarantee is not None and guarantee.met is False else ""
        table.add_row(method, *_numbers(of), known, *_numbers(need), style=style)
    return table


def _numbers(of: Guarantee | Need | None) -> tuple[str, str, str]:
    return ("–", "–", "–") if of is None else (str(of.t), "–" if of.k is None else str(of.k), f"{of.cost:.0f}")


def _remarks(plan: Plan) -> list[str]:
    """Return sentences on why methods have no guarantee or no row, and what to do."""
    lines: dict[str, list[str]] = {}
    for method, reason in plan.silent.items():
        short = reason.removeprefix(f"{method}: ").removeprefix("no bound applies; ")
        name, _, rest = short.partition(": ")  # the name of the bound
        lines.setdefault(rest.split(";")[0] if name.startswith(method) and rest else short, []).append(method)
    remarks = [
        reason if reason.startswith(methods[0]) else f"No guarantee for {', '.join(methods)}: {reason}."
        for reason, methods in lines.items()
    ]
    for method, reason in plan.not_reached.items():
        what = f"{method} was not run" if reason.startswith("memory") else f"No run of {method} reached it"
        remarks.append(f"{what}: {reason.removeprefix(f'{plan.problem.name}: ')}.")
    weak = [g for g in plan.guarantees if g.side is Side.LOWER]
    if weak:
        methods = ", ".join(g.method for g in weak)
        remarks.append(f"Nothing is guaranteed for {methods}: {_wanted(min(weak, key=lambda g: len(g.estimated)))}.")
    return remarks


def _wanted(g: Guarantee) -> str:
    """Return what a bound with estimated constants needs."""
    if g.doubt:
        return g.doubt
    names = ", ".join(g.estimated) or "a constant"
    verb = "is" if len(g.estimated) == 1 else "are"
    options = " ".join(f"--know {name}=…" for name in g.estimated)
    remedy = f"; give values that you can prove, with {options}" if options else ""
    return f"{names} {verb} estimated, and {g.bound} needs a proved value{remedy}"


def _missed(plan: Plan, g: Guarantee) -> str:
    """Return a sentence on a guarantee that a run has missed, because of rounding or a wrong constant."""
    dtype, error = str(plan.problem.dtype).removeprefix("torch."), g.error or math.nan
    rounding = f"rounding in {dtype} may leave as much as {plan.floor:.0e}; ask for a larger eps"
    wrong = f"more than rounding ({plan.floor:.0e} at most); boundcheck check says which constant is wrong"
    return f"{g.method} missed it, with an error of {error:.1e}: {rounding if error <= plan.floor else wrong}"


def _everything(console: Console, plan: Plan) -> None:
    """Print the t and k of every bound, the memory and error of each guarantee, step sizes and the rounding floor."""
    if plan.offers:
        console.print("\n[bold]t and k required by each bound[/bold]")
        table = Table(box=None, pad_edge=False)
        for header in ("method", "bound"):
            table.add_column(header, no_wrap=True)
        for header in ("t", "k", "cost"):
            table.add_column(header, justify="right", no_wrap=True)
        table.add_column("status")
        for offer in plan.offers:
            table.add_row(offer.method, offer.bound, *_numbers_of(offer), standing(offer.side))
        console.print(table)
    for g in plan.guarantees:
        error = "not run" if g.error is None else f"error of a run {g.error:.1e}"
        console.print(f"{g.method}: {error}, memory {memory(g.memory)}")
    show_constants.show_steps(console, plan.constants, plan.problem.about()["step"])
    for reason in plan.silent.values():
        console.print(Text(reason, style="dim"))
    console.print(f"rounding floor: {plan.floor:.1e}, which rounding alone may leave", style="dim")


def _numbers_of(offer: Any) -> tuple[str, str, str]:
    return str(offer.t), "–" if offer.k is None else str(offer.k), f"{offer.cost:.0f}"

"""Output of `boundcheck bound`, as text or JSON: a theorem with its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck import __version__
from boundcheck.json_numbers import SCHEMA, finite
from boundcheck.side import Side
from boundcheck.theory.bound import Bound
from boundcheck.theory.rates import RATES
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.theory.typeset import expression_text
from boundcheck.views.terminal.bound_request import Request, uses_k
from boundcheck.views.terminal.console import Screen

MOST_ROWS = 60


def as_json(theorem: Bound, request: Request) -> dict[str, Any]:
    """Return the theorem and the results as JSON, without NaN or infinity."""
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "version": __version__,
        "bound": {
            "name": theorem.name,
            "title": theorem.title,
            "reference": {
                "paper": theorem.reference.paper.citation,
                "number": theorem.reference.number,
                "label": theorem.reference.label,
            },
            "assumptions": [{"key": a.key, "statement": a.statement, "check": a.check} for a in theorem.assumptions],
            "symbols": {name: QUANTITIES[name].meaning for name in theorem.symbols},
            "methods": list(theorem.methods),
            "latex": theorem.latex(),
        },
        "constants": {name: {"value": c.value, "side": c.side.value} for name, c in request.constants.items()},
        "rates": dict(request.rates),
    }
    if request.values is not None and request.t is not None:
        shape = request.values.values.shape
        content["values"] = {
            "t": [int(x) for x in np.broadcast_to(request.t, shape)],
            "k": [int(x) for x in np.broadcast_to(request.t if request.k is None else request.k, shape)]
            if uses_k(theorem, request.rates)
            else None,
            "bound": [finite(float(x)) for x in request.values.values],
            "side": request.values.side.value,
            "weakest": list(request.values.weakest),
            "rigorous": request.values.rigorous,
        }
    if request.iterations is not None:
        iterations = request.iterations
        content["iterations"] = {
            "eps": request.eps,
            "t": iterations.t,
            "k": iterations.k,
            "bound": finite(iterations.value),
            "cost": iterations.cost,
            "side": iterations.side.value,
            "how": iterations.how,
        }
    return content


def show(theorem: Bound, request: Request) -> None:
    """Print the theorem and the results."""
    console = Screen(highlight=False)
    console.print(Text(f"{theorem.title}", style="bold"), Text(f"  {theorem.reference}", style="dim"))
    console.print()
    left = QUANTITIES[theorem.bounds.name].text
    console.print(Text(_indent(_equation(left, theorem.formula, "≤"))), soft_wrap=True)
    used = theorem.formula.free_symbols
    for symbol, value in theorem.where.items():
        if symbol in used:
            used = used | value.free_symbols
            console.print(Text(_indent(_equation(expression_text(symbol), value, "="), 6)), soft_wrap=True)
    if theorem.recursion:
        _show_recursion(console, theorem.recursion)
    console.print()
    _show_assumptions(console, theorem)
    _show_symbols(console, theorem, request)
    _show_answers(console, request, uses_k(theorem, request.rates))


def _indent(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))


def _equation(left: str, value: Any, sign: str) -> str:
    """Return `left = value`, with the sign on the middle line if the value has several lines."""
    lines = expression_text(value).split("\n")
    middle = len(lines) // 2
    return "\n".join(
        (f"{left} {sign} " if number == middle else " " * (len(left) + 3)) + line for number, line in enumerate(lines)
    )


def _show_recursion(console: Console, recursion: Recursion) -> None:
    for symbol, start, first, step in zip(
        recursion.state, recursion.start, recursion.first, recursion.step, strict=True
    ):
        name = QUANTITIES[symbol.name].text
        equations = [("₀", start)] if str(start) != symbol.name.replace("_t", "_0") else []
        equations += [("₁", first)] if first != step else []
        for index, value in (*equations, ("ₜ₊₁", step)):
            console.print(Text(_indent(_equation(f"{name}{index}", value, "="), 6)), soft_wrap=True)


def _show_assumptions(console: Console, theorem: Bound) -> None:
    table = Table(title="assumptions", title_justify="left", title_style="bold", box=None, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for assumption in theorem.assumptions:
        table.add_row(assumption.key, assumption.statement)
    console.print(table)
    console.print()


def _show_symbols(console: Console, theorem: Bound, request: Request) -> None:
    table = Table(title="needs", title_justify="left", title_style="bold", box=None, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    optional = [s.name for s in theorem.defaults if s.name in request.constants]
    for name in (*theorem.symbols, *optional):
        constant = request.constants.get(name)
        value = f"{constant.value:g}" if constant else request.rates.get(name, "")
        table.add_row(name, value, QUANTITIES[name].meaning)
    console.print(table)
    for rate_name in ("rho", "sigma"):
        if rate_name in theorem.symbols:
            fitting = (r.name for r in RATES.values() if r.stands_for.name == rate_name)
            console.print(
                Text(f"  {rate_name} may be a rate: --rate {rate_name}=… ({', '.join(fitting)})", style="dim")
            )
    console.print()


VALUE_WORDS = {
    Side.EXACT: "exact for these constants",
    Side.UPPER: "proved upper bound",
    Side.HIGH_PROBABILITY: "upper bound with high probability",
    Side.LOWER: "proves nothing, it may be too small because of ",
}


def _show_answers(console: Console, request: Request, with_k: bool) -> None:
    if request.values is not None and request.t is not None:
        values = request.values.values
        known = VALUE_WORDS[request.values.side]
        if request.values.side is Side.LOWER:
            known += ", ".join(request.values.weakest)
        console.print(
            Text("bound", style="bold"), Text(f"  {known}{', rounded up' if request.values.rigorous else ''}")
        )
        table = Table(box=None)
        ts = np.broadcast_to(request.t, values.shape)
        columns = {"t": ts, "k": np.broadcast_to(request.t if request.k is None else request.k, values.shape)}
        if not with_k:
            del columns["k"]
        for header in (*columns, "bound"):
            table.add_column(header, justify="right")
        for *counts, value in list(zip(*columns.values(), values, strict=True))[:MOST_ROWS]:
            table.add_row(*(str(count) for count in counts), f"{value:.6g}")
        console.print(table)
        if values.size > MOST_ROWS:
            console.print(Text(f"  … and {values.size - MOST_ROWS} more; --json prints all", style="dim"))
        console.print()
    if request.iterations is not None:
        iterations = request.iterations
        where = ", ".join(f"{name} = {n}" for name, n in (("t", iterations.t), ("k", iterations.k)) if n is not None)
        console.print(
            Text(f"accuracy {request.eps:g} at {where}", style="bold"),
            Text(f"  bound {iterations.value:.6g}, {iterations.how}", style="dim"),
        )

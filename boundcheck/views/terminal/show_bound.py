"""`boundcheck bound`: a theorem with its numbers, for a person or for a program."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck import __version__
from boundcheck.side import Side
from boundcheck.theory.bound import Bound
from boundcheck.theory.rates import RATES
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.theory.typeset import expression_text
from boundcheck.views.terminal.bound_request import Request, uses_k
from boundcheck.views.terminal.console import Screen

MOST_ROWS = 60


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_json(theorem: Bound, asked: Request) -> dict[str, Any]:
    """The theorem and the answers, without NaN or infinity."""
    content: dict[str, Any] = {
        "schema": 1,
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
        "constants": {name: {"value": c.value, "side": c.side.value} for name, c in asked.constants.items()},
        "rates": dict(asked.rates),
    }
    if asked.values is not None and asked.t is not None:
        shape = asked.values.values.shape
        content["values"] = {
            "t": [int(x) for x in np.broadcast_to(asked.t, shape)],
            "k": [int(x) for x in np.broadcast_to(asked.t if asked.k is None else asked.k, shape)]
            if uses_k(theorem, asked.rates)
            else None,
            "bound": [_finite(float(x)) for x in asked.values.values],
            "side": asked.values.side.value,
            "weakest": list(asked.values.weakest),
            "rigorous": asked.values.rigorous,
        }
    if asked.iterations is not None:
        iterations = asked.iterations
        content["iterations"] = {
            "eps": asked.eps,
            "t": iterations.t,
            "k": iterations.k,
            "bound": _finite(iterations.value),
            "cost": iterations.cost,
            "side": iterations.side.value,
            "how": iterations.how,
        }
    return content


def show(theorem: Bound, asked: Request) -> None:
    """The theorem as a person wants to read it."""
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
    _show_symbols(console, theorem, asked)
    _show_answers(console, asked, uses_k(theorem, asked.rates))


def _indent(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))


def _equation(left: str, value: Any, sign: str) -> str:
    """`left = value` with the sign on the middle line of a value that takes several."""
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
        shown = [("₀", start)] if str(start) != symbol.name.replace("_t", "_0") else []
        shown += [("₁", first)] if first != step else []
        for index, value in (*shown, ("ₜ₊₁", step)):
            console.print(Text(_indent(_equation(f"{name}{index}", value, "="), 6)), soft_wrap=True)


def _show_assumptions(console: Console, theorem: Bound) -> None:
    table = Table(title="assumptions", title_justify="left", title_style="bold", box=None, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for assumption in theorem.assumptions:
        table.add_row(assumption.key, assumption.statement)
    console.print(table)
    console.print()


def _show_symbols(console: Console, theorem: Bound, asked: Request) -> None:
    table = Table(title="needs", title_justify="left", title_style="bold", box=None, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    optional = [s.name for s in theorem.defaults if s.name in asked.constants]
    for name in (*theorem.symbols, *optional):
        given = asked.constants.get(name)
        value = f"{given.value:g}" if given else asked.rates.get(name, "")
        table.add_row(name, value, QUANTITIES[name].meaning)
    console.print(table)
    for rate_name in ("rho", "sigma"):
        if rate_name in theorem.symbols:
            fitting = (r.name for r in RATES.values() if r.stands_for.name == rate_name)
            console.print(
                Text(f"  {rate_name} may be a rate: --rate {rate_name}=… ({', '.join(fitting)})", style="dim")
            )
    console.print()


WORTH = {
    Side.EXACT: "exact for these constants",
    Side.UPPER: "proved upper bound",
    Side.HIGH_PROBABILITY: "upper bound with high probability",
    Side.LOWER: "proves nothing, it may be too small because of ",
}


def _show_answers(console: Console, asked: Request, with_k: bool) -> None:
    if asked.values is not None and asked.t is not None:
        values = asked.values.values
        worth = WORTH[asked.values.side]
        if asked.values.side is Side.LOWER:
            worth += ", ".join(asked.values.weakest)
        console.print(Text("bound", style="bold"), Text(f"  {worth}{', rounded up' if asked.values.rigorous else ''}"))
        table = Table(box=None)
        ts = np.broadcast_to(asked.t, values.shape)
        columns = {"t": ts, "k": np.broadcast_to(asked.t if asked.k is None else asked.k, values.shape)}
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
    if asked.iterations is not None:
        iterations = asked.iterations
        where = ", ".join(f"{name} = {n}" for name, n in (("t", iterations.t), ("k", iterations.k)) if n is not None)
        console.print(
            Text(f"accuracy {asked.eps:g} at {where}", style="bold"),
            Text(f"  bound {iterations.value:.6g}, {iterations.how}", style="dim"),
        )

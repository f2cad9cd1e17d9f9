"""`boundcheck bound`: reading what the user typed, and showing a theorem with its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck import __version__
from boundcheck.constants import Constant, Constants, Side
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.listing import Screen
from boundcheck.theory.bound import Bound
from boundcheck.theory.call import Recursion
from boundcheck.theory.complexity import Iterations
from boundcheck.theory.evaluation import BoundValues
from boundcheck.theory.rates import RATES
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.theory.typeset import expression_text

DEFAULT_T = "1,10,100,1000"
MOST_POINTS = 10**6
MOST_ROWS = 60


@dataclass(frozen=True)
class Request:
    """What was asked of a bound, and the answers: nothing evaluated when no number was given."""

    constants: Constants
    rates: Mapping[str, str]
    t: np.ndarray | None = None
    k: np.ndarray | None = None
    values: BoundValues | None = None
    eps: float | None = None
    iterations: Iterations | None = None


def _number(name: str, text: str) -> float:
    try:
        if "_" in text or not text.isascii():
            raise ValueError
        value = float(text)
    except ValueError:
        raise InputError(f"{name} = {text!r} is not a number; write it like 0.9 or 1e-3") from None
    if not math.isfinite(value):
        raise InputError(f"{name} = {text} is not finite; give a finite number")
    return value


def _pairs(option: str, items: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items:
        name, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise InputError(f"{option} {item!r} has no '='; write {option} NAME=VALUE")
        if name in pairs:
            raise InputError(f"{option} gives {name} twice, {pairs[name]} and {text}; give it once")
        pairs[name] = text
    return pairs


def _constants(items: Sequence[str], side: str) -> Constants:
    pairs = _pairs("--set", items)
    for name in pairs:
        if name in ("t", "k"):
            raise InputError(f"--set {name}={pairs[name]}: {name} counts iterations; use --{name} {pairs[name]}")
        if name not in QUANTITIES or QUANTITIES[name].kind == "coefficient":
            raise UnknownNameError.among("symbol", name, (n for n, x in QUANTITIES.items() if x.kind != "coefficient"))
    values = {name: _number(name, text) for name, text in pairs.items()}
    for name, value in values.items():
        QUANTITIES[name].check(value)
    if Side.parse(side) is Side.HIGH_PROBABILITY:
        raise InputError("--side high-probability needs a delta for each constant; use exact, upper or lower here")
    return Constants({name: Constant(name, value, Side.parse(side)) for name, value in values.items()})


def _integers(name: str, text: str) -> np.ndarray:
    """50, or 1,10,100, or 0:200:10 with both ends included."""
    try:
        if ":" in text:
            start, stop, step = ([int(part) for part in text.split(":")] + [1])[:3]
            if len(text.split(":")) > 3 or step < 1 or (stop - start) // step >= MOST_POINTS:
                raise ValueError
            array = np.arange(start, stop + 1, step)
        else:
            array = np.array([int(part) for part in text.split(",")])
    except (ValueError, OverflowError):
        raise InputError(
            f"{name} = {text!r} is not a count; write 50, or 1,10,100, or 0:200:10 (at most {MOST_POINTS} of them)"
        ) from None
    if array.size == 0 or array.min() < 0:
        raise InputError(f"{name} = {text}: the number of iterations cannot be negative or empty; give {name} ≥ 0")
    return array


def request(
    theorem: Bound,
    set_: Sequence[str],
    rate: Sequence[str],
    t: str,
    k: str,
    eps: str,
    side: str,
    rigorous: bool,
) -> Request:
    """Read the options and evaluate what they ask for."""
    constants, rates = _constants(set_, side), _pairs("--rate", rate)
    for name in rates:
        if name not in ("rho", "sigma"):
            raise UnknownNameError.among("rate symbol", name, ("rho", "sigma"))
        if not theorem.mentions(QUANTITIES[name].symbol):
            raise InputError(f"--rate {name}={rates[name]}: {theorem.name} has no {name}; leave it out")
    if k and not uses_k(theorem, rates):
        raise InputError(f"--k {k}: {theorem.name} does not depend on k; leave it out")
    if k and eps and not t:
        raise InputError(f"--k {k}: --eps chooses k itself; give --t as well for values at this k")
    accuracy = _number("eps", eps) if eps else None
    if accuracy is not None and accuracy <= 0:
        raise InputError(f"eps = {accuracy:g} ≤ 0; give a positive accuracy, such as 1e-3")
    if not (set_ or t or k or eps):
        return Request(constants, rates)
    ts = _integers("t", t or DEFAULT_T) if t or not eps else None
    ks = _integers("k", k) if k else None
    if ts is not None and ks is not None and ks.size not in (1, ts.size):
        raise InputError(f"k has {ks.size} values and t has {ts.size}; give one k, or as many as there are t")
    given: dict[str, Any] = dict(rates)
    values = theorem.evaluate(constants, ts, ks, rigorous=rigorous, **given) if ts is not None else None
    found = theorem.iterations(constants, accuracy, **given) if accuracy is not None else None
    return Request(constants, rates, ts, ks, values, accuracy, found)


def uses_k(theorem: Bound, rates: Mapping[str, str]) -> bool:
    """Whether k matters: by itself, or through the rate of the linear solver."""
    return "k" in theorem.symbols or "sigma" in rates


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
        found = asked.iterations
        content["iterations"] = {
            "eps": asked.eps,
            "t": found.t,
            "k": found.k,
            "bound": _finite(found.value),
            "cost": found.cost,
            "side": found.side.value,
            "how": found.how,
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
        found = asked.iterations
        where = ", ".join(f"{name} = {n}" for name, n in (("t", found.t), ("k", found.k)) if n is not None)
        console.print(
            Text(f"accuracy {asked.eps:g} at {where}", style="bold"),
            Text(f"  bound {found.value:.6g}, {found.how}", style="dim"),
        )

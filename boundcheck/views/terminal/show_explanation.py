"""Output of `boundcheck constants --explain`: what each operation of the user's functions adds to a constant."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from boundcheck.ball import Ball
from boundcheck.explanation import ADD_UP, Contribution, Explanation
from boundcheck.side import in_words
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.terminal.console import Screen, number

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem

MOST_ROWS = 12  # the most rows; smaller contributions are only counted
ADDS, CENTRE = 8, 11  # the widths of the two columns of numbers
INDENT = ADDS + CENTRE + 2  # the indent of notes below an operation
SAME_VALUE = 1e-6  # values with a smaller relative difference count as the same
LEGEND = "z is what an operation φ reads, over the ball; the weight is the derivative of the function by its result."


def show(problem: Problem, explanations: Sequence[Explanation], file: str = "", console: Console | None = None) -> None:
    """Print each constant with its rows. Lines are quoted from `file`, the file of the user."""
    console = console or Screen(highlight=False)
    console.print(f"[bold]{problem.name}[/bold]  d = {problem.d}, n = {problem.n}, {problem.dynamics.name}")
    source = _UserLines(file)
    for explanation in explanations:
        console.print()
        _show_one(console, explanation, source)
    if any(explanation.contributions for explanation in explanations):
        console.print()
        console.print(Text(f"{ADD_UP} {LEGEND}", style="dim"))


def _show_one(console: Console, explanation: Explanation, source: _UserLines) -> None:
    constant = explanation.constant
    meaning = QUANTITIES[constant.name].meaning
    head = Text.assemble(
        (f"{constant.name} = {constant.value:.6g}", "bold"), f", {in_words(constant.side, constant.name)}: {meaning}"
    )
    console.print(head)
    console.print(Text(constant.provenance.how, style="dim"))
    if explanation.no_proof:
        console.print(Text(f"not proved: {explanation.no_proof}", style="yellow"))
    if explanation.quantity:
        console.print()
        console.print(_title(explanation))
    if explanation.remark:
        console.print(Text(explanation.remark))
    if explanation.contributions:
        _table(console, explanation.contributions, source)
    elif explanation.quantity:
        console.print("No operation of the function adds anything.")


def _title(explanation: Explanation) -> Text:
    """Return the quantity, its bound and its ball, and a better value if one is known."""
    value, constant = explanation.value, explanation.constant
    relation = "≥" if "smallest" in explanation.quantity else "≤"
    title = Text(f"{explanation.quantity} {relation} {_number(value)}{_where(explanation.ball)}", style="bold")
    from_program = constant.provenance.reference == "program" or constant.name == "q"
    if value is not None and not from_program and abs(value - constant.value) > SAME_VALUE * abs(value):
        title.append(f"; known better as {constant.value:.6g}", style="not bold")
    return title


def _where(ball: Ball | None) -> str:
    if ball is None:
        return ""
    return f" over ‖w{'' if ball.centre == '0' else ' − w*'}‖ ≤ {number(ball.radius)}"


def _number(x: float | None) -> str:
    return "−∞" if x == -math.inf else number(x) if x else "0"


def _table(console: Console, parts: Sequence[Contribution], source: _UserLines) -> None:
    console.print(Text(f"{'adds':>{ADDS}}{'at centre':>{CENTRE}}  operation", style="dim"))
    rows, quoted = [part for part in parts if part.value], ""
    for part in rows[:MOST_ROWS]:
        quote = source.line(part.line)
        _row(console, part, "" if quote == quoted else quote)
        quoted = quote
    if len(rows) > MOST_ROWS:
        _indented(
            console, [f"{len(rows) - MOST_ROWS} more, which add at most {number(abs(rows[MOST_ROWS].value))} each"]
        )
    zeros = [f"{part.operation} {part.line}".strip() for part in parts if not part.value]
    if zeros:
        lines = _packed(zeros, ", ", console.width - INDENT)
        console.print(Text(f"{'0':>{ADDS}}{'':{CENTRE}}  {lines[0]}"))
        _indented(console, lines[1:])


def _row(console: Console, part: Contribution, quote: str) -> None:
    title = Text(f"{_number(part.value):>{ADDS}}{_number(part.at_centre):>{CENTRE}}  ")
    title.append(part.operation, style="bold")
    title.append(f"  {part.line}" if part.line else "", style="cyan")
    title.append(f"  ×{part.count}" if part.count > 1 else "")
    fits = title.cell_len + len(quote) + 2 <= console.width
    if quote and fits:
        title.append(f"  {quote}", style="dim")
    console.print(title)
    room = console.width - INDENT
    if quote and not fits:
        _indented(console, [quote if len(quote) <= room else f"{quote[: room - 1]}…"], "dim")
    if part.note:
        _indented(console, _packed(part.note.split("; "), "; ", room))
    if part.hint:
        _indented(console, textwrap.wrap(f"→ {part.hint}", room), "yellow")


def _packed(pieces: Sequence[str], between: str, room: int) -> list[str]:
    """Pack pieces into lines of at most `room` characters; a piece is broken only if it is longer than a line."""
    lines = [""]
    for i, piece in enumerate(pieces):
        text = piece + between.rstrip() * (i < len(pieces) - 1)
        if lines[-1] and len(lines[-1]) + 1 + len(text) > room:
            lines.append("")
        lines[-1] = f"{lines[-1]} {text}".lstrip()
    return [part for line in lines for part in textwrap.wrap(line, room)]


def _indented(console: Console, lines: Sequence[str], style: str = "") -> None:
    for line in lines:
        console.print(Text(" " * INDENT + line, style=style))


class _UserLines:
    """The lines of the user's file, by names such as "mine.py:12"."""

    def __init__(self, file: str) -> None:
        path = Path(file) if file else None
        self.name = path.name if path else ""
        self.lines = path.read_text(encoding="utf-8").splitlines() if path and path.is_file() else []

    def line(self, place: str) -> str:
        """Return the text of a line; empty if it is in another file."""
        name, _, number_of_line = place.rpartition(":")
        if name != self.name or not number_of_line.isdigit() or not 0 < int(number_of_line) <= len(self.lines):
            return ""
        return self.lines[int(number_of_line) - 1].strip()

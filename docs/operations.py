"""Writes the table of operations in docs/estimating.md: ``python docs/operations.py``. A test fails if it is stale."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.linear_rules import AFFINE, MOVES, SUMS
from boundcheck.numerics.program.enclosure.product_rules import PRODUCTS
from boundcheck.numerics.program.enclosure.special_rules import SPECIAL
from boundcheck.numerics.program.in_place import COPIES, WRITES
from boundcheck.numerics.program.recorder import CONSTANTS

PAGE = Path(__file__).parent / "estimating.md"
BEGIN, END = "<!-- operations: python docs/operations.py -->\n", "<!-- end of operations -->\n"


def row(what: str, names: Iterable[str]) -> str:
    return f"| {what} | {' '.join(f'`{name}`' for name in sorted(set(names)))} |"


def table() -> str:
    """Every operation of ATen that has a rule, by rule."""
    rows = [
        "| rule | operations, as a reason names them |",
        "|---|---|",
        row("move numbers", MOVES),
        row("sums, and numbers beside a tensor", SUMS | AFFINE),
        row("products", PRODUCTS),
        row("functions of one number", ELEMENTARY),
        row("with a rule of their own", SPECIAL),
        row("written with the others", EXPANSIONS),
        row("numbers, whatever they are given", CONSTANTS),
        row("in place, into a tensor of the function's own", [*(f"{name}_" for name in WRITES), *COPIES]),
    ]
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    """The page with the table as it is now."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + rest[rest.index(END) :]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))

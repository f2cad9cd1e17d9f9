"""Output of `boundcheck list`: the catalogue as rows, for a terminal or for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from boundcheck.errors import UnknownNameError
from boundcheck.methods import METHODS, RANDOM_METHODS
from boundcheck.theory.catalogue import bounds
from boundcheck.views.terminal.console import Screen


def rows(kind: str) -> list[dict[str, str]]:
    """Return a row for each of the "bounds" or "methods"."""
    if kind == "bounds":
        return [
            {
                "name": b.name,
                "title": b.title,
                "reference": f"{b.reference.paper.key}, {b.reference.number}",
                "kind": b.kind,
                "methods": ", ".join(b.methods),
            }
            for b in bounds.values()
        ]
    if kind == "methods":
        return [
            {
                "name": name,
                "title": title,
                "bounds": ", ".join(b.name for b in bounds.values() if name in b.methods),
            }
            for name, title in {**METHODS, **RANDOM_METHODS}.items()
        ]
    raise UnknownNameError.among("listing", kind, ("bounds", "methods"))


def show(listings: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
    """Print a table for each listing; `listings` maps its title to its rows."""
    console = Screen()
    for kind, entries in listings.items():
        if not entries:
            console.print(f"{kind}: none in this version")
            continue
        table = Table(title=kind, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in entries[0]:
            table.add_column(column, no_wrap=column == "name", style="bold" if column == "name" else "")
        for row in entries:
            table.add_row(*row.values())
        console.print(table)
        console.print()

"""`boundcheck list`: the catalogue as rows, for a terminal or for JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from boundcheck.methods import METHODS
from boundcheck.theory.catalogue import bounds


def rows(kind: str) -> list[dict[str, str]]:
    """One row for each thing of this kind."""
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
            for name, title in METHODS.items()
        ]
    from boundcheck.problems import CATALOGUE  # torch is loaded for this listing only

    return [
        {"name": entry.name, "title": entry.title, "function": f"problems.{entry.file}"} for entry in CATALOGUE.values()
    ]


class Screen(Console):
    """A console that leaves a closed pipe to the command line to deal with."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def show(kinds: Sequence[str]) -> None:
    console = Screen()
    for kind in kinds:
        found = rows(kind)
        if not found:
            console.print(f"{kind}: none in this version")
            continue
        table = Table(title=kind, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in found[0]:
            table.add_column(column, no_wrap=column == "name", style="bold" if column == "name" else "")
        for row in found:
            table.add_row(*row.values())
        console.print(table)
        console.print()

"""The command `gallery`: write one page with many reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from boundcheck.cli.options import Json, print_json
from boundcheck.json_numbers import SCHEMA


def gallery(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A folder with reports of `check --out` below it.")],
    out: Annotated[str, typer.Option("--out", help="The file to write; DIR/index.html by default.")] = "",
    as_json: Json = False,
) -> None:
    """Write one HTML page with all reports below a folder: verdicts, errors, figures and links."""
    from boundcheck.atomic_write import sole_use_of_file
    from boundcheck.views import gallery as pages

    place = Path(out) if out else Path(directory) / "index.html"
    entries = pages.entries(directory)
    pages.refuse_unless_own(place)
    with sole_use_of_file(place, f"--out {place}") as results:
        (path,) = results.write({place.name: pages.html(entries, directory, place).encode()})
    broken = [entry.why for entry in entries if entry.report is None]
    if as_json:
        print_json({"schema": SCHEMA, "file": str(path), "reports": len(entries) - len(broken), "broken": broken})
        return
    for why in broken:
        typer.echo(f"left out: {why}", err=True)
    if not entries:
        typer.echo(f"no report.json below {directory}; write one with boundcheck check PROBLEM --out", err=True)
    typer.echo(f"written to {path} ({len(entries) - len(broken)} reports)")

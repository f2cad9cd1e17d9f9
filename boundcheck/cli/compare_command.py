"""The command `compare`: list the changes between two reports."""

from __future__ import annotations

from typing import Annotated

import typer

from boundcheck.cli.options import VIOLATED, Json, print_json


def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A report.json, or the folder of `check --out`.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The same of a later run.")],
    rtol: Annotated[float, typer.Option("--rtol", help="Numbers that differ by less count as equal.")] = 1e-6,
    as_json: Json = False,
) -> int:
    """Say what changed between two reports. Exit code 1 if a bound became violated, otherwise 0."""
    from boundcheck.report.compare_reports import compare_reports

    result = compare_reports(before, after, rtol=rtol)
    if as_json:
        print_json(result.to_json())
    else:
        typer.echo(str(result))
    return VIOLATED if result.violated else 0

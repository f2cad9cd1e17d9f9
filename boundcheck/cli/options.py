"""What several commands take, how they end, and how they print JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundcheck.errors import UnknownNameError

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem

VIOLATED, BAD_INPUT, SILENT = 1, 2, 3  # exit codes; 0 is not a violation

ProblemName = Annotated[str, typer.Argument(metavar="PROBLEM", help="A built-in name, or path/to/file.py:name.")]
Budget = Annotated[int | None, typer.Option("--budget", help="At most so many products for each constant.")]
Delta = Annotated[float, typer.Option("--delta", help="Failure probability of each random certificate.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout, and nothing else there.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Random seed for built-in data, drawn λ and random starts.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float64 or float32, for problems that can be made in both.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, mps.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show everything, not only the first screen.")]


def asked_problem(spec: str, seed: int | None, dtype: str, device: str) -> Problem:
    """The problem that a command was given, with nothing that was not asked for."""
    from boundcheck.problems.loading import load_asked

    options: dict[str, Any] = {}
    if dtype:
        import torch

        known = {"float32": torch.float32, "float64": torch.float64}
        if dtype not in known:
            raise UnknownNameError.among("dtype", dtype, known)
        options["dtype"] = known[dtype]
    if device:
        options["device"] = device
    return load_asked(spec, seed, **options)


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False))

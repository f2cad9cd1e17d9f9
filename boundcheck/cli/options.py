"""Options that several commands share, exit codes, and output as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundcheck.errors import InputError, InterruptedRunError, UnknownNameError

if TYPE_CHECKING:
    from boundcheck.constants import Constants
    from boundcheck.numerics.bilevel.problem import Problem

NOT_GIVEN = frozenset({"t", "k", "K", "m", "eps_g"})  # not for --know: they are other options, or are computed
VIOLATED, BAD_INPUT, SILENT, INTERNAL, INTERRUPTED = 1, 2, 3, 70, 130  # exit codes; 0 is not a violation

ProblemName = Annotated[str, typer.Argument(metavar="PROBLEM", help="A built-in name, or path/to/file.py:name.")]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", help="itd, aid-fp, aid-cg:10, …, or with minibatches sid, neumann:20; repeat for more."),
]
Budget = Annotated[int | None, typer.Option("--budget", help="Limit on Jacobian products per constant.")]
Delta = Annotated[float, typer.Option("--delta", help="Failure probability of each random certificate.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout, and nothing else there.")]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Random seed for built-in data, drawn λ, minibatches and random starts.")
]
Dtype = Annotated[str, typer.Option("--dtype", help="float64 or float32, for problems that can be made in both.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, mps.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show everything, not only the first screen.")]
Memory = Annotated[
    str, typer.Option("--memory", metavar="SIZE", help="Memory for error curves: 4GB, 512MB or bytes (default 1GiB).")
]
SetProblem = Annotated[
    list[str] | None,
    typer.Option("--set-problem", metavar="NAME=VALUE", help="An option of the problem, such as tfidf=true; repeat."),
]
Know = Annotated[
    list[str] | None,
    typer.Option("--know", metavar="NAME=NUMBER", help="A constant that you can prove, such as nu_2=0.3; repeat."),
]
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS |= {"k": 10**3, "m": 10**6, "g": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
DEFAULT_MEMORY = 2**30


@contextmanager
def after_writing(place: str) -> Iterator[None]:
    """Show results that are already in a file: after Ctrl-C, the message names the file."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"stopped; {place} was written" if place else "stopped; nothing was written"
        ) from None


def asked_memory(text: str) -> int:
    """Return the bytes of --memory.

    Examples
    --------
    >>> from boundcheck.cli.options import asked_memory
    >>> asked_memory("4GB"), asked_memory("1.5 GiB"), asked_memory("4e9"), asked_memory("")
    (4000000000, 1610612736, 4000000000, 1073741824)
    """
    if not text:
        return DEFAULT_MEMORY
    match = re.fullmatch(r"\s*((?:\d+\.?\d*|\.\d+)(?:e\+?\d{1,2})?)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in UNITS or (size := int(float(match[1]) * UNITS[match[2].lower()])) < 1:
        raise InputError(f"--memory must be a size such as 4GB, 512MB or a number of bytes (got {text!r})")
    return size


def asked_time(text: str) -> float | None:
    """Return the seconds of --budget; None if it was not given.

    Examples
    --------
    >>> from boundcheck.cli.options import asked_time
    >>> asked_time("2h"), asked_time("1.5 min"), asked_time("90s"), asked_time("")
    (7200.0, 90.0, 90.0, None)
    """
    if not text:
        return None
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|m|min|h)\s*", text)
    if match is None or not float(match[1]) > 0:
        raise InputError(f"--budget must be a time such as 2h, 10m or 90s (got {text!r})")
    return float(match[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[match[2]]


def asked_constants(texts: Sequence[str] | None) -> Constants | None:
    """Return the constants of --know, on their safe side: upper bounds, or lower bounds for constants such as mu."""
    if not texts:
        return None
    from boundcheck.constants import NAMES, Constant, Constants
    from boundcheck.side import safe_side

    known: dict[str, Constant] = {}
    for text in texts:
        name, equals, number = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise InputError(f"--know {text} has no '='; write NAME=NUMBER, as in --know nu_2=0.3")
        if name not in NAMES - NOT_GIVEN:
            raise UnknownNameError.among("constant", name, NAMES - NOT_GIVEN)
        if name in known:
            raise InputError(f"--know gives {name} twice; give it once")
        try:
            known[name] = Constant(name, float(number), safe_side(name))
        except ValueError:
            raise InputError(f"--know {name} must be a finite number (got {number!r})") from None
        if known[name].value < 0:
            raise InputError(f"--know {name} must not be negative (got {number})")
    return Constants(known)


def asked_problem(
    spec: str, seed: int | None, dtype: str, device: str, settings: Sequence[str] | None = None
) -> Problem:
    """Load the problem of a command, with only the options that were given."""
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
    return load_asked(spec, seed, settings or (), **options)


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False))

"""The command line. Slow imports are inside the commands, so that ``boundcheck --help`` is fast."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from boundcheck import __version__
from boundcheck.ball import BallKind
from boundcheck.cli import commands
from boundcheck.cli.audit_command import audit
from boundcheck.cli.check_command import check
from boundcheck.cli.compare_command import compare
from boundcheck.cli.gallery_command import gallery
from boundcheck.cli.options import (
    BAD_INPUT,
    INTERNAL,
    INTERRUPTED,
    SILENT,
    Budget,
    Delta,
    Device,
    Dtype,
    Json,
    Know,
    ProblemName,
    Quiet,
    Seed,
    SetProblem,
    Verbose,
    asked_constants,
    asked_problem,
    print_json,
)
from boundcheck.cli.page_command import page
from boundcheck.cli.sweep_command import sweep
from boundcheck.errors import AssumptionError, BoundcheckError, InputError, InterruptedRunError, UnknownNameError

STOPPED = "stopped; nothing was written"
app = typer.Typer(
    name="boundcheck",
    help="Hypergradient error bounds: what they say, whether they hold, how tight they are.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"boundcheck {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(metavar="[problems|bounds|methods]", help="What to list.")] = "",
    as_json: Json = False,
) -> None:
    """List what boundcheck knows: problems, bounds and methods."""
    from boundcheck.views.terminal import show_catalogue

    kinds = ("bounds", "methods", "problems")
    if what and what not in kinds:
        raise UnknownNameError.among("listing", what, kinds)
    kinds_to_list = (what,) if what else kinds
    listings = {kind: _problems() if kind == "problems" else show_catalogue.rows(kind) for kind in kinds_to_list}
    if as_json:
        print_json(listings)
    else:
        show_catalogue.show(listings)


def _problems() -> list[dict[str, str]]:
    from boundcheck.problems import CATALOGUE  # loads torch

    return [{"name": e.name, "title": e.title, "function": f"problems.{e.file}"} for e in CATALOGUE.values()]


@app.command()
def bound(
    name: Annotated[str, typer.Argument(help="A name from `boundcheck list bounds`.")],
    latex: Annotated[bool, typer.Option("--latex", help="Print the statement as LaTeX.")] = False,
    python: Annotated[bool, typer.Option("--python", help="Print a standalone Python function.")] = False,
    javascript: Annotated[bool, typer.Option("--javascript", help="Print a standalone JavaScript function.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=NUMBER", help="A constant; repeat for each one.")
    ] = None,
    rate: Annotated[
        list[str] | None, typer.Option("--rate", metavar="rho|sigma=RATE", help="A rate by name, as in rho=heavy-ball.")
    ] = None,
    t: Annotated[str, typer.Option("--t", help="Iterations: 50, or 1,10,100, or 0:200:10 (start:stop:step).")] = "",
    k: Annotated[str, typer.Option("--k", help="Linear-solver iterations, likewise; k = t by default.")] = "",
    eps: Annotated[str, typer.Option("--eps", help="Find the t (and k) the bound guarantees for this accuracy.")] = "",
    step: Annotated[
        str, typer.Option("--step", help="With --eps: the steps for w, where the bound takes ρ_t and σ_k.")
    ] = "",
    step_v: Annotated[str, typer.Option("--step-v", help="The steps for v; by default as for w.")] = "",
    side: Annotated[str, typer.Option("--side", help="What the constants are: exact, upper or lower.")] = "exact",
    rigorous: Annotated[bool, typer.Option("--rigorous", help="Interval arithmetic: round every value up.")] = False,
    as_json: Json = False,
) -> None:
    """Show a bound, or evaluate it: boundcheck bound itd --set q=0.9 --set D=1 … --t 50 --eps 1e-3."""
    from boundcheck.theory.catalogue import bounds
    from boundcheck.views.terminal import show_bound
    from boundcheck.views.terminal.bound_request import read

    theorem = bounds[name]
    if sum((latex, python, javascript)) > 1:
        raise InputError("--latex, --python and --javascript were given together; ask for one at a time")
    if (latex or python or javascript) and (set_ or rate or t or k or eps or step or step_v):
        raise InputError("--latex, --python and --javascript print the statement alone; leave out --set and --t")
    if latex or python or javascript:
        source = theorem.latex() if latex else theorem.python() if python else theorem.javascript()
        print_json({"bound": name, "source": source}) if as_json else typer.echo(source.rstrip("\n"))
        return
    request = read(theorem, set_ or (), rate or (), t, k, eps, side, rigorous, step, step_v)
    if as_json:
        print_json(show_bound.as_json(theorem, request))
    else:
        show_bound.show(theorem, request)


@app.command()
def constants(
    problem: ProblemName,
    ball: Annotated[
        str, typer.Option("--ball", help="Suprema over ‖w‖ ≤ 2D (paper) or around w* (local).")
    ] = BallKind.PAPER.value,
    explain: Annotated[
        list[str] | None,
        typer.Option("--explain", metavar="NAME", help="What each operation of your code adds to it; repeat for more."),
    ] = None,
    set_problem: SetProblem = None,
    know: Know = None,
    budget: Budget = None,
    delta: Delta = 1e-3,
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Find q, κ, Lipschitz constants and D of a problem and the step size to use, and say what is proved."""
    from boundcheck.numerics.estimate.estimate_constants import estimate_constants
    from boundcheck.numerics.estimate.explain_constant import explain_constants
    from boundcheck.views.terminal import console, show_constants, show_explanation

    known = asked_constants(know)
    loaded = asked_problem(problem, seed, dtype, device, set_problem)
    with console.progress(quiet or as_json) as progress:
        estimates = estimate_constants(
            loaded, ball=ball, known=known, budget=budget, delta=delta, seed=seed or 0, progress=progress
        )  # fmt: skip
        explanations = explain_constants(loaded, estimates, explain or (), ball)
        local = None
        if ball == BallKind.PAPER and not (estimates["q"].is_safe and estimates["q"].value < 1 and not loaded.w0.any()):
            # the iterates have another ball, or more may be known on it
            local = estimate_constants(
                loaded, ball=BallKind.LOCAL, known=known, budget=budget, delta=delta, seed=seed or 0, progress=progress
            )
    if as_json:
        print_json(show_constants.as_json(loaded, estimates, explanations, ball, local))
    elif explanations:
        show_explanation.show(loaded, list(explanations.values()), problem.rpartition(":")[0])
    else:
        show_constants.show(loaded, estimates, ball, local, verbose=verbose)


for _run in (
    check, sweep, audit, commands.plan, commands.hypergradient, commands.worst, commands.paper, page,
    compare, gallery,
):  # fmt: skip
    app.command()(_run)


def main() -> None:
    """Run the `boundcheck` command. Bad input gives one line and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without Unicode shows question marks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except InterruptedRunError as error:
        _fail(str(error), INTERRUPTED)
    except AssumptionError as error:  # the input is valid, but no theorem applies to it
        _fail(str(error), SILENT)
    except BoundcheckError as error:
        _fail(_of_options(str(error)))
    except TyperException as error:
        text = " ".join(error.format_message().split()) if hasattr(error, "format_message") else str(error)
        _fail(f"{text.rstrip('.')}; see boundcheck --help" if text else "")
    except (KeyboardInterrupt, typer.Abort):
        _fail(STOPPED, INTERRUPTED)
    except BrokenPipeError:  # the reader has ended, as in `boundcheck list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"cannot write the output: {error}")
    except Exception as error:
        if os.environ.get("BOUNDCHECK_TRACEBACK"):
            raise
        text = " ".join(str(error).split())[:300]
        advice = "please report it; BOUNDCHECK_TRACEBACK=1 shows where it arose"
        _fail(f"an error inside boundcheck: {type(error).__name__}: {text}; {advice}", INTERNAL)
    if code == INTERRUPTED:  # the exit code of typer after Ctrl-C
        _fail(STOPPED, INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _of_options(message: str) -> str:
    """Replace the name of a Python argument by the option: "t must be …" becomes "--t must be …"."""
    name, must, _ = message.partition(" must be ")
    is_given = any(word.split("=")[0] == f"--{name}" for word in sys.argv[1:])
    return f"--{message}" if must and is_given else message


def _fail(message: str, code: int = BAD_INPUT) -> None:
    if message:
        print(f"boundcheck: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()

"""The command `sweep`: run `check` or `plan` over a grid."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from boundcheck.cli.options import (
    SILENT,
    VIOLATED,
    Budget,
    Device,
    Dtype,
    Json,
    ProblemName,
    Quiet,
    Seed,
    SetProblem,
    after_writing,
    print_json,
)
from boundcheck.errors import InputError, InterruptedRunError


def sweep(
    problem: ProblemName,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="NAME=VALUES",
            help="An axis: kappa=10:1e5:9:log, noise=0:1:5, seed=0:20, t=10,100; repeat.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="itd, aid-fp, aid-cg:10, …; repeat for several.")
    ] = None,
    t: Annotated[int, typer.Option("--t", help="Lower-level iterations of each check, at most.")] = 200,
    samples: Annotated[int, typer.Option("--samples", help="Values of λ that are drawn at each point.")] = 1,
    bound: Annotated[
        list[str] | None, typer.Option("--bound", help="A name from `boundcheck list bounds`; all by default.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Plan at each point instead; needs --rtol or --eps.")] = False,
    eps: Annotated[float | None, typer.Option("--eps", help="The absolute error that plans allow.")] = None,
    rtol: Annotated[float | None, typer.Option("--rtol", help="Or the relative one: 0.01 is 1 % of ‖∇f‖.")] = None,
    out: Annotated[
        str, typer.Option("--out", help="Folder for results and checkpoints (default out/sweep/PROBLEM).")
    ] = "",
    jobs: Annotated[int, typer.Option("--jobs", help="Number of processes.")] = 1,
    scheduler: Annotated[str, typer.Option("--scheduler", help="Address of a Dask scheduler to run on.")] = "",
    set_problem: SetProblem = None,
    budget: Budget = None,
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Check a problem over a grid of its options: when is the bound loose? The same command resumes after a stop."""
    from boundcheck.atomic_write import sole_use
    from boundcheck.sweeps.axis_text import name_and_text
    from boundcheck.sweeps.maker import Maker
    from boundcheck.sweeps.result import save
    from boundcheck.sweeps.sweep import run_sweep
    from boundcheck.views.terminal import console

    axes: dict[str, str] = {}
    for text in over or ():
        name, values = name_and_text(text)
        if name in axes:
            raise InputError(f"--over gives {name} twice; give it once")
        axes[name] = values
    if not axes and samples == 1:
        raise InputError("no grid was given; add --over NAME=VALUES, such as --over kappa=10:1e5:9:log")
    source = Maker.of(problem).source
    options: dict[str, Any] = dict(source.read(set_problem)) if set_problem else {}
    options |= {name: value for name, value in (("dtype", dtype), ("device", device)) if value}
    place = Path(out or f"out/sweep/{source.spec.rpartition(':')[2]}")

    def say(text: str) -> None:
        if not quiet:
            print(f"boundcheck: {text}", file=sys.stderr, flush=True)

    try:
        with sole_use(place) as results:
            with console.progress(quiet or as_json, time_left=True) as progress:
                result = run_sweep(
                    problem, axes, t, methods=method, samples=samples, seed=seed, action="plan" if plan else "check",
                    rtol=rtol, eps=eps, bounds=bound, options=options, budget=budget, jobs=jobs, scheduler=scheduler,
                    out=results, progress=progress, say=say,
                )  # fmt: skip
            save(result, results)
    except KeyboardInterrupt:
        raise InterruptedRunError(f"stopped; the same command resumes from {place}") from None
    with after_writing(str(place)):
        if as_json:
            print_json(result.to_json())
        else:
            console.Screen(highlight=False).print(str(result), markup=False)
            before = f", {result.from_before} points from before" if result.from_before else ""
            typer.echo(f"written to {place}{before}")
    return _exit_code(result.counts)


def _exit_code(counts: dict[str, int]) -> int:
    """Return 1 if a bound is violated, 3 if no bound applies at any point, otherwise 0."""
    from boundcheck.report.verdict import Verdict
    from boundcheck.sweeps.row import FAILED, NO_GUARANTEE

    if any(counts.get(verdict.value) for verdict in Verdict if verdict.is_violation):
        return VIOLATED
    return SILENT if not {*counts} - {FAILED, NO_GUARANTEE, Verdict.NOT_APPLICABLE.value} else 0

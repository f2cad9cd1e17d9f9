"""The command `page`: write one HTML file on a problem, on a report, or on the theory alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from boundcheck.cli.check_command import fewer_steps
from boundcheck.cli.options import (
    Device,
    Dtype,
    Know,
    Memory,
    Methods,
    Quiet,
    Seed,
    SetProblem,
    after_writing,
    asked_constants,
    asked_memory,
    asked_problem,
)
from boundcheck.cli.stochastic_command import (
    Batch,
    Level,
    Options,
    Points,
    Runs,
    Step,
    StepV,
    asked_finite_sum,
    asks_for_minibatches,
    fewer_runs,
    run_minibatches,
)
from boundcheck.errors import InputError


def page(
    problem: Annotated[str, typer.Argument(metavar="[PROBLEM]", help="A built-in name, or path/to/file.py:name.")] = "",
    out: Annotated[str, typer.Option("--out", help="The file to write.")] = "page.html",
    method: Methods = None,
    t: Annotated[int, typer.Option("--t", help="Lower-level iterations, at most.")] = 200,
    runs: Runs = None,
    batch: Batch = None,
    step: Step = "",
    step_v: StepV = "",
    points: Points = None,
    level: Level = None,
    report: Annotated[
        str, typer.Option("--report", help="Show a report that `check --out` wrote, instead of a problem.")
    ] = "",
    set_problem: SetProblem = None,
    know: Know = None,
    memory: Memory = "",
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    quiet: Quiet = False,
) -> None:
    """Write one HTML file with sliders for every constant. With a PROBLEM it also shows errors, verdicts and proofs.

    With --method sid it shows bias and variance over many runs with minibatches, without sliders.
    """
    from boundcheck.atomic_write import sole_use_of_file
    from boundcheck.views import page as pages

    if problem and report:
        raise InputError(f"PROBLEM {problem} and --report {report} were given together; give one of them")
    for option, values in (("--method", method), ("--set-problem", set_problem), ("--know", know)):
        if values and not problem:
            raise InputError(f"{option} {values[0]} needs a PROBLEM; give one as well")
    options = Options(runs, batch, step, step_v, points, level)
    minibatches = asks_for_minibatches(method, options, {})
    steps = options.schedules()
    known, size = asked_constants(know), asked_memory(memory)
    pages.refuse_unless_writable(out)
    with sole_use_of_file(out, f"--out {out}") as results:
        if report:
            text = _of_saved(report, t)
        elif not problem:
            text = pages.html(None, t)
        elif minibatches:
            from boundcheck.views.page import stochastic_page
            from boundcheck.views.terminal import console

            loaded = asked_finite_sum(problem, seed, dtype, device, set_problem, batch)
            with console.progress(quiet, shorter=fewer_runs(options)) as progress:
                random = run_minibatches(
                    loaded, method or (), t, options, steps, seed=seed, known=known, memory=size, progress=progress
                )
            text = stochastic_page.html(random)
        else:
            from boundcheck.compare.check import check as run
            from boundcheck.numerics.estimate.explain_constant import explain_report
            from boundcheck.views.terminal import console

            loaded = asked_problem(problem, seed, dtype, device, set_problem)
            with console.progress(quiet, shorter=fewer_steps(t)) as progress:
                ordinary = run(loaded, method, t, seed=seed, known=known, memory=size, progress=progress)
                progress("explaining the constants", 0, 1)
                explanations = explain_report(loaded, ordinary.constants)
            text = pages.html(ordinary, t, explanations)
        (path,) = results.write({Path(out).name: text.encode()})
    with after_writing(out):
        typer.echo(f"written to {path}")


def _of_saved(report: str, t: int) -> str:
    """Return the page of a saved report, with or without minibatches."""
    from boundcheck.report.json_parts import STOCHASTIC, read
    from boundcheck.report.report import Report
    from boundcheck.report.stochastic_report import StochasticReport
    from boundcheck.views import page as pages
    from boundcheck.views.page import stochastic_page

    if read(report)[1].get("kind") == STOCHASTIC:
        return stochastic_page.html(StochasticReport.load(report))
    return pages.html(Report.load(report), t)

"""The command `check`: compare methods with their bounds; methods with minibatches over many runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from boundcheck.cli.options import (
    SILENT,
    VIOLATED,
    Budget,
    Delta,
    Device,
    Dtype,
    Json,
    Know,
    Memory,
    Methods,
    ProblemName,
    Quiet,
    Seed,
    SetProblem,
    Verbose,
    after_writing,
    asked_constants,
    asked_memory,
    asked_problem,
    print_json,
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


def check(
    problem: ProblemName,
    method: Methods = None,
    t: Annotated[int, typer.Option("--t", help="Lower-level iterations, at most.")] = 200,
    samples: Annotated[int, typer.Option("--samples", help="Number of λ; several are drawn at random (--seed).")] = 1,
    bound: Annotated[
        list[str] | None, typer.Option("--bound", help="A name from `boundcheck list bounds`; all by default.")
    ] = None,
    trace_t: Annotated[
        int | None, typer.Option("--trace-t", help="t at which proofs are shown (default: the last above the floor).")
    ] = None,
    runs: Runs = None,
    batch: Batch = None,
    step: Step = "",
    step_v: StepV = "",
    points: Points = None,
    level: Level = None,
    out: Annotated[str, typer.Option("--out", help="Write report.json, curves.csv and figures here.")] = "",
    verbose: Verbose = False,
    set_problem: SetProblem = None,
    know: Know = None,
    memory: Memory = "",
    budget: Budget = None,
    delta: Delta = 1e-3,
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Run the real solvers and compare their error with every bound that applies: verdict, tightness, proof.

    With --method sid (or neumann:20) it draws minibatches, and measures bias and variance over many runs.
    """
    options = Options(runs, batch, step, step_v, points, level)
    minibatches = asks_for_minibatches(method, options, {"--samples": samples != 1, "--trace-t": trace_t is not None})
    steps = options.schedules()
    if trace_t is not None and not 1 <= trace_t <= t:
        raise InputError(f"--trace-t {trace_t} is outside 1 … {t}; give a t of the run, or a larger --t")
    known, size = asked_constants(know), asked_memory(memory)

    # what takes seconds to load comes after the options, so that a wrong one is refused at once
    from boundcheck.atomic_write import sole_use
    from boundcheck.compare.check import check as run
    from boundcheck.views import report_files, stochastic_files
    from boundcheck.views.terminal import console, show_report, show_stochastic

    report: Any
    with sole_use(out) if out else nullcontext() as results:
        shorter = fewer_runs(options) if minibatches else fewer_steps(t)
        if minibatches:
            loaded = asked_finite_sum(problem, seed, dtype, device, set_problem, batch)
        else:
            loaded = asked_problem(problem, seed, dtype, device, set_problem)
        with console.progress(quiet or as_json, shorter=shorter) as progress:
            if minibatches:
                report = run_minibatches(
                    loaded, method or (), t, options, steps, seed=seed, bounds=bound, known=known, budget=budget,
                    delta=delta, memory=size, progress=progress,
                )  # fmt: skip
            else:
                report = run(
                    loaded, method, t, samples, seed, bounds=bound, known=known, budget=budget, delta=delta,
                    memory=size, progress=progress,
                )  # fmt: skip
            if results is not None:
                progress("files", 0, 1)
                (stochastic_files if minibatches else report_files).save(report, results)
    with after_writing(out):
        if as_json:
            print_json(report.to_json())
        else:
            if minibatches:
                show_stochastic.show(report, verbose, problem)
            else:
                show_report.show(report, verbose=verbose or trace_t is not None, trace_t=trace_t, source=problem)
            if out:
                typer.echo(f"written to {out}")
    return _exit_code(report)


def fewer_steps(t: int) -> Callable[[float], str]:
    """Return a function from the seconds of a check to advice: a t that takes at most about ten minutes."""
    return lambda seconds: f"use fewer steps, such as --t {max(1, int(t * 600 / seconds))}, or fewer methods (--method)"


def _exit_code(report: Any) -> int:
    from boundcheck.report.report import Report
    from boundcheck.report.verdict import Verdict

    if report.verdict.is_violation:
        return VIOLATED
    nothing = report.verdict is Verdict.NOT_APPLICABLE
    if isinstance(report, Report):
        nothing = nothing or len(report.diverging) == len(report.curves)
    return SILENT if nothing else 0

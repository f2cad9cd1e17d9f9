"""Commands that run something: plan, hypergradient, worst and paper."""

from __future__ import annotations

import io
import os
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from boundcheck.cli.options import (
    SILENT,
    VIOLATED,
    Budget,
    Device,
    Dtype,
    Json,
    Know,
    Memory,
    ProblemName,
    Quiet,
    Seed,
    SetProblem,
    Verbose,
    after_writing,
    asked_constants,
    asked_memory,
    asked_problem,
    asked_time,
    print_json,
)
from boundcheck.cli.stochastic_command import Batch, Options, asked_finite_sum, asks_for_minibatches
from boundcheck.errors import InputError, InterruptedRunError


def plan(
    problem: ProblemName,
    eps: Annotated[
        float | None, typer.Option("--eps", help="The absolute error allowed; the root mean square one of sid.")
    ] = None,
    rtol: Annotated[
        float | None, typer.Option("--rtol", help="Or the relative error allowed: 0.01 is 1 % of ‖∇f‖.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="itd, aid-fp, aid-cg, aid-cgn, sid.")] = None,
    batch: Batch = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Do not run the methods to see what they need.")] = False,
    set_problem: SetProblem = None,
    know: Know = None,
    memory: Memory = "",
    budget: Budget = None,
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Find the t and k for an accuracy: guaranteed by a bound, or estimated from runs; and the step size to use.

    With --method sid, also the steps and the batch, for the root mean square error.
    """
    if (eps is None) == (rtol is None):
        both = "no accuracy was given" if eps is None else "--eps and --rtol were given together"
        raise InputError(f"{both}; give --rtol 0.01 for an error of 1 % of ‖∇f‖, or --eps for an absolute error")
    minibatches = asks_for_minibatches(method, Options(batch=batch), {})
    known, size = asked_constants(know), asked_memory(memory)
    if minibatches and method != ["sid"]:
        raise InputError(f"plan knows sid among the methods with minibatches, not {', '.join(method or ())}")

    # what takes seconds to load comes after the options, so that a wrong one is refused at once
    from boundcheck.compare.plan import plan as make
    from boundcheck.compare.plan_stochastic import plan_stochastic
    from boundcheck.views.terminal import console, show_plan, show_stochastic_plan

    if minibatches:
        loaded = asked_finite_sum(problem, seed, dtype, device, set_problem, batch)
        with console.progress(quiet or as_json) as progress:
            of_sid = plan_stochastic(
                loaded, eps, rtol=rtol, known=known, budget=budget, memory=size, seed=seed or 0, run=not no_run,
                progress=progress,
            )  # fmt: skip
        if as_json:
            print_json(of_sid.to_json())
        else:
            show_stochastic_plan.show(of_sid)
        return 0 if of_sid.splits or of_sid.measured else SILENT
    loaded = asked_problem(problem, seed, dtype, device, set_problem)
    with console.progress(quiet or as_json) as progress:
        result = make(
            loaded, eps, method, rtol=rtol, known=known, budget=budget, memory=size, seed=seed or 0, run=not no_run,
            progress=progress,
        )  # fmt: skip
    if as_json:
        print_json(show_plan.as_json(result))
    else:
        show_plan.show(result, verbose=verbose)
    return 0 if result.guarantees or result.cheapest_run else SILENT


def hypergradient(
    problem: ProblemName,
    rtol: Annotated[
        float | None, typer.Option("--rtol", help="The relative error allowed: 0.1 is 10 % of ‖∇f‖.")
    ] = None,
    atol: Annotated[
        float | None, typer.Option("--atol", help="The absolute error allowed, added to the other.")
    ] = None,
    no_proof: Annotated[bool, typer.Option("--no-proof", help="Estimate the error, which is quicker.")] = False,
    out: Annotated[str, typer.Option("--out", help="Write the hypergradient to this file, such as g.npy.")] = "",
    set_problem: SetProblem = None,
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    as_json: Json = False,
) -> int:
    """Compute the hypergradient to a tolerance, and say how its error is known."""
    from boundcheck.trust.hypergradient import hypergradient as compute
    from boundcheck.views.terminal import show_hypergradient

    if rtol is None and atol is None:
        raise InputError("no tolerance was given; add --rtol 0.1 for a relative error of 10 %, or --atol")
    if out and not out.endswith(".npy"):
        raise InputError(f"--out {out} is not a .npy file; give a name such as g.npy")
    loaded = asked_problem(problem, seed, dtype, device, set_problem)
    g = compute(loaded, rtol=rtol, atol=atol, prove=not no_proof)
    if out:
        _save_array(g.value.detach().cpu().numpy(), out)
    with after_writing(out):
        if as_json:
            print_json(show_hypergradient.as_json(loaded, g))
        else:
            show_hypergradient.show(loaded, g)
            if out:
                typer.echo(f"written to {out}")
    return 0


def _save_array(array: Any, out: str) -> None:
    import numpy as np

    from boundcheck.atomic_write import sole_use_of_file

    contents = io.BytesIO()
    np.save(contents, array)
    with sole_use_of_file(out, f"--out {out}") as results:
        results.write({os.path.basename(out): contents.getvalue()})


def worst(
    bound: Annotated[
        str,
        typer.Argument(
            metavar="BOUND",
            help="A name from `boundcheck list bounds`, or one of the false claims appB-aid and heavy-ball-2D.",
        ),
    ],
    q: Annotated[float, typer.Option("--q", help="The contraction constant.")] = 0.9,
    t: Annotated[int, typer.Option("--t", help="Lower-level iterations.")] = 20,
    k: Annotated[
        int | None, typer.Option("--k", help="Linear-solver iterations (default 20 for bounds that depend on k).")
    ] = None,
    dim: Annotated[int, typer.Option("--dim", help="Dimension of w. Dimension 1 is searched too.")] = 2,
    only: Annotated[
        str,
        typer.Option(
            "--only", help="Allow only these parts, separated by commas: nu_1, nu_2, eta_1, eta_2, L_Phi, L_E."
        ),
    ] = "",
    linear: Annotated[
        bool, typer.Option("--linear", help="Search only maps Φ that are bilinear and losses E that are quadratic.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use fewer random starts. Takes a quarter of the time.")
    ] = False,
    out: Annotated[
        str,
        typer.Option("--out", help="Write the problem found (worst.py) and the result (worst.json) to this folder."),
    ] = "",
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Search for the problem with the largest error/bound: it shows how tight a bound is, or refutes it."""
    from boundcheck.atomic_write import sole_use
    from boundcheck.views.terminal import console, show_worst
    from boundcheck.worst_case.problem_file import check_command, save
    from boundcheck.worst_case.worst import worst as look

    parts = [part.strip() for part in only.split(",")] if only else None
    with sole_use(out) if out else nullcontext() as results:
        with console.progress(quiet or as_json) as progress:
            result = look(
                bound, q, t, k, dim, seed or 0, only=parts, saturating=not linear, quick=quick, progress=progress
            )  # fmt: skip
        if results is not None:
            save(result, results)
    with after_writing(out):
        if as_json:
            print_json(result.to_json())
        else:
            file = os.path.join(out, "worst.py")
            show_worst.show(result, out=out, run_with=check_command(result, file) or f"python {file}")
    if result.found.interrupted:
        written = f" and written to {out}" if out else ""
        raise InterruptedRunError(f"stopped early; the best instance so far is shown{written}")
    return VIOLATED if result.refuted else 0


def paper(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="fig1, table1, table2, eqm, conv-eqm, states or tightness.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Run fewer steps, seeds and samples. Takes under two minutes.")
    ] = False,
    out: Annotated[
        str, typer.Option("--out", help="Folder for figures, tables and checkpoints (default out/paper/NAME).")
    ] = "",
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Number of processes (default 1; one per core with --quick).")
    ] = None,
    scheduler: Annotated[str, typer.Option("--scheduler", help="Address of a Dask scheduler to run on.")] = "",
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Run the part of the tables that fits into 2h or 10m.")
    ] = "",
    halving: Annotated[
        str,
        typer.Option("--halving", metavar="RULE", help="Step sizes of the tables by successive halving: 3 or 3:20."),
    ] = "",
    seed: Seed = None,
    device: Device = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Reproduce a figure or table of the paper. You can interrupt it at any time; the same command resumes."""
    from boundcheck.paper.command import paper as run

    result = run(
        name, quick=quick, out=out, jobs=jobs, scheduler=scheduler, seed=seed, device=device, quiet=quiet,
        silent=as_json, budget=asked_time(budget), halving=halving,
    )  # fmt: skip
    if as_json:
        print_json(result)

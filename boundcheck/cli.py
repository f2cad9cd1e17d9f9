"""The command line. Heavy imports live inside the commands, so that ``boundcheck --help`` loads none of them."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from boundcheck import __version__
from boundcheck.errors import AssumptionError, BoundcheckError, InputError, UnknownNameError

VIOLATED, BAD_INPUT, SILENT = 1, 2, 3  # exit codes; 0 is no violation

app = typer.Typer(
    name="boundcheck",
    help="Hypergradient error bounds: what they say, whether they hold, how tight they are.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout, and nothing else there.")]


Seed = Annotated[int | None, typer.Option("--seed", help="For the data of built-in problems and for random starts.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float64 or float32, for problems that can be made in both.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, mps.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


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
    from boundcheck import listing

    kinds = ("bounds", "methods", "problems")
    if what and what not in kinds:
        raise UnknownNameError.among("listing", what, kinds)
    chosen = (what,) if what else kinds
    if as_json:
        _print_json({kind: listing.rows(kind) for kind in chosen})
    else:
        listing.show(chosen)


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
    k: Annotated[str, typer.Option("--k", help="Linear-solver iterations, likewise; k = t unless given.")] = "",
    eps: Annotated[str, typer.Option("--eps", help="Find the t (and k) the bound guarantees for this accuracy.")] = "",
    side: Annotated[str, typer.Option("--side", help="What the constants are: exact, upper or lower.")] = "exact",
    rigorous: Annotated[bool, typer.Option("--rigorous", help="Interval arithmetic: round every value up.")] = False,
    as_json: Json = False,
) -> None:
    """Show a bound, or evaluate it: boundcheck bound itd --set q=0.9 --set D=1 … --t 50 --eps 1e-3."""
    from boundcheck import present
    from boundcheck.request import read
    from boundcheck.theory.catalogue import bounds

    theorem = bounds[name]
    if sum((latex, python, javascript)) > 1:
        raise InputError("--latex, --python and --javascript were given together; ask for one at a time")
    if (latex or python or javascript) and (set_ or rate or t or k or eps):
        raise InputError("--latex, --python and --javascript print the statement alone; leave out --set and --t")
    if latex or python or javascript:
        source = theorem.latex() if latex else theorem.python() if python else theorem.javascript()
        _print_json({"bound": name, "source": source}) if as_json else typer.echo(source.rstrip("\n"))
        return
    request = read(theorem, set_ or (), rate or (), t, k, eps, side, rigorous)
    if as_json:
        _print_json(present.as_json(theorem, request))
    else:
        present.show(theorem, request)


@app.command()
def constants(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="A built-in name, or path/to/file.py:name.")],
    ball: Annotated[str, typer.Option("--ball", help="Suprema over ‖w‖ ≤ 2D (paper) or around w* (local).")] = "paper",
    budget: Annotated[int | None, typer.Option("--budget", help="At most so many products for each constant.")] = None,
    delta: Annotated[float, typer.Option("--delta", help="Failure probability of each random certificate.")] = 1e-3,
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure q, κ, step sizes, Lipschitz constants and D of a problem: value, side, how."""
    from boundcheck import measured
    from boundcheck.estimate.all import estimate_constants
    from boundcheck.loading import load_problem

    made = load_problem(problem, **_options(seed, dtype, device))
    with measured.progress(quiet or as_json) as tell:
        found = estimate_constants(made, ball=ball, budget=budget, delta=delta, seed=seed or 0, progress=tell)
    if as_json:
        _print_json(measured.as_json(made, found))
    else:
        measured.show(made, found)


@app.command()
def check(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="A built-in name, or path/to/file.py:name.")],
    method: Annotated[
        list[str] | None, typer.Option("--method", help="itd, aid-fp, aid-cg:10, …; repeat for several.")
    ] = None,
    t: Annotated[int, typer.Option("--t", help="Lower-level iterations, at most.")] = 200,
    samples: Annotated[int, typer.Option("--samples", help="Values of λ; more than one are drawn with --seed.")] = 1,
    bound: Annotated[
        list[str] | None, typer.Option("--bound", help="A name from `boundcheck list bounds`; all unless given.")
    ] = None,
    trace_t: Annotated[
        int | None, typer.Option("--trace-t", help="The t at which proofs are shown; the last above the floor if none.")
    ] = None,
    out: Annotated[str, typer.Option("--out", help="Write report.json, curves.csv and figures here.")] = "",
    budget: Annotated[int | None, typer.Option("--budget", help="At most so many products for each constant.")] = None,
    delta: Annotated[float, typer.Option("--delta", help="Failure probability of each random certificate.")] = 1e-3,
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Run the real solvers and compare their error with every bound that applies: verdict, tightness, proof."""
    from boundcheck import checked
    from boundcheck.compare.check import check as run
    from boundcheck.loading import load_problem
    from boundcheck.writing import refuse_unless_writable

    if trace_t is not None and not 1 <= trace_t <= t:
        raise InputError(f"--trace-t {trace_t} is outside 1 … {t}; give a t of the run, or a larger --t")
    if out:
        refuse_unless_writable(out)
    made = load_problem(problem, **_options(seed, dtype, device))
    methods = method or _usual(made)
    with checked.progress(quiet or as_json) as tell:
        report = run(made, methods, t, samples, seed, bounds=bound, budget=budget, delta=delta, progress=tell)
        if out:
            tell("files", 0, 1)
            checked.save(report, out)
    if as_json:
        _print_json(report.to_json())
    else:
        checked.show(report, trace_t=trace_t)
        if out:
            typer.echo(f"written to {out}")
    return _exit_code(report)


@app.command()
def plan(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="A built-in name, or path/to/file.py:name.")],
    eps: Annotated[float, typer.Option("--eps", help="The accuracy that is wanted.")],
    method: Annotated[list[str] | None, typer.Option("--method", help="itd, aid-fp, aid-cg, aid-cgn.")] = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Do not run the methods to see what they need.")] = False,
    budget: Annotated[int | None, typer.Option("--budget", help="At most so many products for each constant.")] = None,
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Step sizes, and the t and k that the bounds guarantee for an accuracy; then what was really needed."""
    from boundcheck import checked, planned
    from boundcheck.compare.plan import plan as make
    from boundcheck.loading import load_problem

    made = load_problem(problem, **_options(seed, dtype, device))
    with checked.progress(quiet or as_json) as tell:
        found = make(made, eps, method or _usual(made), budget=budget, seed=seed or 0, run=not no_run, progress=tell)
    if as_json:
        _print_json(planned.as_json(found))
    else:
        planned.show(found)
    return 0 if found.guarantees else SILENT


@app.command()
def paper(
    name: Annotated[str, typer.Argument(metavar="NAME", help="fig1, …: a figure or table of the paper.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps, seeds and samples: under two minutes.")] = False,
    out: Annotated[str, typer.Option("--out", help="Figures, tables and checkpoints; out/paper/NAME if none.")] = "",
    jobs: Annotated[int, typer.Option("--jobs", help="Spread the runs over so many processes.")] = 1,
    scheduler: Annotated[str, typer.Option("--scheduler", help="Or over the Dask cluster at this address.")] = "",
    seed: Seed = None,
    device: Device = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Reproduce a figure or table of the paper beside the published one; stopped at any moment, it goes on."""
    from boundcheck.paper._command import paper as run

    found = run(
        name, quick=quick, out=out, jobs=jobs, scheduler=scheduler, seed=seed, device=device, quiet=quiet,
        silent=as_json,
    )  # fmt: skip
    if as_json:
        _print_json(found)


@app.command()
def worst(
    bound: Annotated[str, typer.Argument(metavar="BOUND", help="A bound, or a claim: appB-aid, heavy-ball-2D.")],
    q: Annotated[float, typer.Option("--q", help="The contraction constant.")] = 0.9,
    t: Annotated[int, typer.Option("--t", help="Lower-level iterations.")] = 20,
    k: Annotated[int | None, typer.Option("--k", help="Linear-solver iterations; 20 where the bound has them.")] = None,
    dim: Annotated[int, typer.Option("--dim", help="Dimension of w; 1 is tried as well.")] = 2,
    only: Annotated[
        str, typer.Option("--only", help="Parts an instance may have, of nu_1,nu_2,eta_1,eta_2,L_Phi,L_E.")
    ] = "",
    linear: Annotated[bool, typer.Option("--linear", help="Nothing saturates: Φ, E bilinear and quadratic.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer starts, in a quarter of the time.")] = False,
    out: Annotated[str, typer.Option("--out", help="Write worst.py, a problem to check, and worst.json here.")] = "",
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Search for the instance with the largest error/bound, and confirm it in 50 digits: how tight, or refuted."""
    from boundcheck import checked, searched
    from boundcheck.attack.saved import save
    from boundcheck.attack.worst import worst as look
    from boundcheck.writing import refuse_unless_writable

    if out:
        refuse_unless_writable(out)
    parts = [part.strip() for part in only.split(",")] if only else None
    with checked.progress(quiet or as_json) as tell:
        found = look(
            bound, q, t, k, dim, seed or 0, only=parts, saturating=not linear, quick=quick, progress=tell
        )  # fmt: skip
    if out:
        save(found, out)
    if as_json:
        _print_json(found.to_json())
    else:
        searched.show(found, out=out)
    return VIOLATED if found.refuted else 0


@app.command()
def page(
    problem: Annotated[str, typer.Argument(metavar="[PROBLEM]", help="A built-in name, or path/to/file.py:name.")] = "",
    out: Annotated[str, typer.Option("--out", help="The file to write.")] = "page.html",
    method: Annotated[list[str] | None, typer.Option("--method", help="itd, aid-fp, aid-cg:10, …")] = None,
    t: Annotated[int, typer.Option("--t", help="Lower-level iterations, at most.")] = 200,
    report: Annotated[str, typer.Option("--report", help="What `check --out` wrote, in place of a problem.")] = "",
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    quiet: Quiet = False,
) -> None:
    """One HTML file with sliders that move every bound; of a problem also its errors, verdicts and proofs."""
    from boundcheck import page as pages

    if problem and report:
        raise InputError(f"PROBLEM {problem} and --report {report} were given together; give one of them")
    if method and not problem:
        raise InputError(f"--method {method[0]} says what to run on a problem; give a PROBLEM as well")
    pages.refuse_unless_writable(out)
    found = None
    if report:
        from boundcheck.compare.report import Report

        found = Report.load(report)
    elif problem:
        from boundcheck import checked
        from boundcheck.compare.check import check as run
        from boundcheck.loading import load_problem

        made = load_problem(problem, **_options(seed, dtype, device))
        with checked.progress(quiet) as tell:
            found = run(made, method or _usual(made), t, seed=seed, progress=tell)
    typer.echo(f"written to {pages.write(out, found, t)}")


def _usual(problem: Any) -> list[str]:
    """The methods of the paper, with CG where ∂₁Φ is symmetric as far as is known."""
    return ["itd", "aid-fp", "aid-cgn" if problem.symmetric is False else "aid-cg"]


def _exit_code(report: Any) -> int:
    from boundcheck.compare.verdict import Verdict

    return VIOLATED if report.verdict.is_violation else SILENT if report.verdict is Verdict.NOT_APPLICABLE else 0


def _options(seed: int | None, dtype: str, device: str) -> dict[str, Any]:
    """What goes to the function that makes a problem; nothing that was not asked for."""
    options: dict[str, Any] = {} if seed is None else {"seed": seed}
    if dtype:
        import torch

        known = {"float32": torch.float32, "float64": torch.float64}
        if dtype not in known:
            raise UnknownNameError.among("dtype", dtype, known)
        options["dtype"] = known[dtype]
    if device:
        options["device"] = device
    return options


def _print_json(content: Any) -> None:
    typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False))


def main() -> None:
    """The `boundcheck` command: one line and exit code 2 for bad input, never a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without Unicode shows question marks, not a traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except AssumptionError as error:  # nothing is wrong with the input, but no theorem speaks of it
        _fail(str(error), SILENT)
    except BoundcheckError as error:
        _fail(str(error))
    except TyperException as error:
        text = " ".join(error.format_message().split()) if hasattr(error, "format_message") else str(error)
        _fail(f"{text.rstrip('.')}; see boundcheck --help" if text else "")
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:  # the reader went away, as in `boundcheck list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"cannot write the output: {error}")
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int = BAD_INPUT) -> None:
    if message:
        print(f"boundcheck: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()

"""`sweep`: `check` or `plan` at every point of a grid, with checkpoints, on processes or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from boundcheck import methods as method_names
from boundcheck.atomic_write import Results
from boundcheck.engine.conduct import Say, conduct
from boundcheck.engine.experiment import Settings
from boundcheck.engine.workers import workers
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.progress import Progress, no_progress
from boundcheck.sweeps import runs
from boundcheck.sweeps.grid import STEPS, Grid, grid_of, plain_values, refuse_unless_usable
from boundcheck.sweeps.maker import Maker
from boundcheck.sweeps.result import Sweep
from boundcheck.sweeps.row import SweepRow

ACTIONS = ("check", "plan")


def sweep(
    problem: str | Problem | Callable[..., Problem],
    over: Mapping[str, Iterable[Any] | str],
    t: int = 200,
    *,
    methods: Sequence[str] | None = None,
    samples: int = 1,
    seed: int | None = None,
    action: str = "check",
    rtol: float | None = None,
    eps: float | None = None,
    bounds: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    budget: int | None = None,
    jobs: int = 1,
    scheduler: str = "",
    out: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Run `check` or `plan` at every point of a grid: when is the bound loose?

    If a point raises, because its problem cannot be made or no solution is found, its row has the reason.

    Parameters
    ----------
    problem : str, callable or Problem
        The source of the problems: a name as in `load_problem`, such as "lr" or "mine.py:make", or a function that
        takes the swept options by name and returns a `Problem`. A `Problem` itself has no options to sweep.
    over : mapping from str to iterable or str
        The values of each option of the problem. Text is read as on the command line: "10:1e5:9:log" for 9 numbers
        with equal ratios, "0:1:5" for 5 with equal differences, "0:20" for the whole numbers from 0 to 19, "a,b" for
        values. With ``action="check"``, "t" can also be an axis; with "plan", "rtol" and "eps" can.
    t : int
        The largest number of lower-level steps of each check; 200 by default.
    methods : sequence of str, optional
        The methods, as in `check`; each has its own row.
    samples : int
        The number of λ to draw at each point. With 1, the default, the problem's own λ is used.
    seed : int, optional
        The seed of the problem's data, if the problem takes one, and of the drawn λ.
    action : {"check", "plan"}
        What to run at each point; "check" by default.
    rtol : float, optional
        The accuracy of plans, relative to ‖∇f‖.
    eps : float, optional
        The accuracy of plans, absolute.
    bounds : sequence of str, optional
        Names of bounds from the catalogue, for checks; all of them by default.
    options : mapping from str to object, optional
        Options of the problem that are the same at every point.
    budget : int, optional
        The largest number of products with derivatives for each estimated constant.
    jobs : int
        The number of processes; 1 by default, which is this process.
    scheduler : str
        The address of a Dask scheduler, in place of `jobs`.
    out : str or path, optional
        A folder for checkpoints: after a stop, the same call continues from them. `Sweep.save` writes the results. By
        default nothing is kept.
    progress : callable (what, done, of) -> None, optional
        Called with a description, the amount that is done, and the total amount.

    Returns
    -------
    Sweep
        `.rows` has one `SweepRow` for each method at each point; `.table()`, `.to_frame()`, `.plot(path)` and
        `.save(directory)` show them.

    Raises
    ------
    UnknownNameError
        If there is no such problem, option, method or bound.
    InputError
        If an argument cannot be used, the function cannot be sent to other processes, or `out` holds another sweep.
    UserCodeError
        If the file of the problem cannot be run.

    Examples
    --------
    >>> import boundcheck as bc
    >>> sweep = bc.sweep("scalar", {"q": [0.5, 0.9]}, t=20, methods=["itd"], bounds=["itd"])
    >>> [(row.options["q"], row.verdict, round(row.ratio, 1)) for row in sweep.rows]
    [(0.5, 'holds', 1.0), (0.9, 'holds', 1.3)]
    """
    return run_sweep(
        problem, over, t, methods=methods, samples=samples, seed=seed, action=action, rtol=rtol, eps=eps, bounds=bounds,
        options=options, budget=budget, jobs=jobs, scheduler=scheduler, out=out, progress=progress,
    )  # fmt: skip


def run_sweep(
    problem: object, over: Mapping[str, Any], t: int = 200, *, methods: Sequence[str] | None, samples: int,
    seed: int | None, action: str, rtol: float | None, eps: float | None, bounds: Sequence[str] | None,
    options: Mapping[str, Any] | None, budget: int | None, jobs: int, scheduler: str,
    out: str | PathLike[str] | Results | None, progress: Progress | None, say: Say = lambda text: None,
) -> Sweep:  # fmt: skip
    """Run `sweep`, also for the command line: `out` may be a claimed folder; `say` gets the estimate of the time."""
    if action not in ACTIONS:
        raise UnknownNameError.among("action", action, ACTIONS)
    maker = Maker.of(problem)
    grid = grid_of(maker, over, samples, action)
    fixed = {name: next(plain_values(name, [value])) for name, value in (options or {}).items()}
    settings = _settings(maker, grid, t, methods, seed, action, rtol, eps, bounds, fixed, budget)
    pool = workers(jobs, scheduler)
    if jobs > 1 or scheduler:
        maker.refuse_unless_sendable()
    if out is not None and not isinstance(maker.what, str) and not settings["digest"]:
        why = f"{maker.name} holds data or has no source, so a later call could not tell whether it is the same"
        raise InputError(f"out = {str(out)!r} keeps results, but {why}; put it into a file, or leave out `out`")
    with ExitStack() as stack:
        given = out if out is not None else stack.enter_context(TemporaryDirectory())
        place, tasks = given if isinstance(given, Results) else Path(given), runs.experiment(maker, grid, settings)
        done = conduct(tasks, settings, place, pool, say=say, bar=progress or no_progress)
    rows = [
        SweepRow(options=dict(point.options), sample=point.sample, **row)
        for point, some in zip(grid.points, done.outcome.data["rows"], strict=True)
        for row in some
    ]
    return Sweep(maker.name, action, grid, tuple(rows), settings, done.from_before)


def _settings(
    maker: Maker, grid: Grid, t: int, methods: Sequence[str] | None, seed: int | None, action: str,
    rtol: float | None, eps: float | None, bounds: Sequence[str] | None, options: dict[str, Any], budget: int | None,
) -> Settings:  # fmt: skip
    """Return everything that the rows depend on, as JSON; InputError if no point could use an argument."""
    if isinstance(methods, str):
        methods = [methods]
    for name in options:
        maker.source.require(name)
        if name in grid.axes:
            raise InputError(f"option {name} is swept and fixed at {options[name]!r}; leave one of them out")
    if seed is not None and method_names.count(seed, "seed") >= 0 and "seed" in grid.axes:
        raise InputError(f"seed is swept and also given as {seed}; leave one of them out")
    if methods is not None:
        parsed = [method_names.parse(name) for name in methods]
        if not parsed or any(method.name == "exact" for method in parsed):
            raise InputError("methods is empty or has exact, which errors are measured against; name itd or aid-cg:10")
        methods = list(dict.fromkeys(map(str, parsed)))
    return {
        "problem": maker.name, "digest": maker.digest, "action": action, "samples": grid.samples, "seed": seed,
        "over": {name: list(values) for name, values in grid.axes.items()}, "options": options, "methods": methods,
        "run": _steps(action, grid, t, rtol, eps, bounds, budget),
    }  # fmt: skip


def _steps(
    action: str, grid: Grid, t: int, rtol: float | None, eps: float | None, bounds: Sequence[str] | None,
    budget: int | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the arguments of each check or plan; each point replaces the swept ones."""
    if budget is not None:
        method_names.count(budget, "budget", least=1)
    if action == "check":
        if rtol is not None or eps is not None:
            raise InputError("rtol and eps are accuracies of plans; leave them out, or add action='plan' (--plan)")
        from boundcheck.theory.catalogue import bounds as catalogue

        for name in bounds or ():
            catalogue[name]
        fixed = {"t": method_names.count(t, "t", least=1), "bounds": None if bounds is None else list(bounds)}
        return {**fixed, "budget": budget}
    if bounds is not None:
        raise InputError("bounds are chosen for checks; a plan takes the cheapest of all, so leave them out")
    accuracies = {name: value for name, value in (("rtol", rtol), ("eps", eps)) if value is not None}
    columns = {*accuracies, *({*STEPS["plan"]} & {*grid.axes})}
    if len(columns) != 1:
        both = "no accuracy was given" if not columns else "rtol and eps were given together"
        raise InputError(f"{both}; give one, such as rtol=0.01 (--rtol 0.01)")
    (name,) = columns
    if name in accuracies:
        refuse_unless_usable(name, accuracies[name])
    return {name: accuracies.get(name), "budget": budget}

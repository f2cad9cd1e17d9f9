"""The tasks of a sweep as an experiment: each makes one problem, and checks or plans it at one λ.

A task that raises becomes a row with the reason. An error that would make every row fail (a worker has no copy of the
file, or another version of it, or there is no sampler for λ) ends the sweep instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from boundcheck.engine.experiment import Experiment, Outcome, Settings, Task
from boundcheck.errors import InputError
from boundcheck.sweeps import row
from boundcheck.sweeps.grid import Grid
from boundcheck.sweeps.maker import Maker

NAME, TITLE = "sweep", "check or plan over a grid"


class NoSamplerError(InputError):
    """λ cannot be drawn, because the problem has no sampler."""


def settings(quick: bool, seed: int, device: str) -> Settings:
    """Return an empty dict: `sweep` passes its own settings."""
    return {}


def tasks(settings: Settings) -> list[Task]:
    """Return an empty list: `experiment` sets the tasks."""
    return []


def experiment(maker: Maker, grid: Grid, settings: Settings) -> Experiment:
    """Return the sweep with its tasks, for the engine."""
    from dataclasses import replace
    from importlib import import_module

    shared = {name: settings[name] for name in ("action", "options", "methods", "seed", "samples", "run", "digest")}
    all_tasks = [
        Task(f"{i:05d}", {**shared, "maker": maker.what, "point": point.options, "sample": point.sample}, point.cost)
        for i, point in enumerate(grid.points)
    ]
    return replace(Experiment.of(import_module(__name__)), tasks=lambda settings: all_tasks)


def run(task: Task, state: Any) -> list[dict[str, Any]]:
    """Return the rows of one problem at one λ, one for each method."""
    parameters = task.parameters
    maker = Maker(parameters["maker"])
    maker.source  # noqa: B018 - if the file is missing or cannot be run, the sweep ends
    if parameters["digest"] != maker.digest:
        raise InputError(f"{maker.name} is another file here than where the sweep was started; copy it to all workers")
    try:
        rows = list(_rows(maker, parameters))
    except NoSamplerError:
        raise
    except Exception as why:
        rows = row.failed(parameters["methods"], why)
    return rows


def _rows(maker: Maker, parameters: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    steps = {name: value for name, value in parameters["point"].items() if name in parameters["run"]}
    others = {name: value for name, value in parameters["point"].items() if name not in steps}
    options = {**parameters["options"], **others}
    if parameters["seed"] is not None and "seed" not in options and maker.source.takes("seed"):
        options["seed"] = parameters["seed"]
    problem, how = maker.make(options), {**parameters["run"], **steps}
    if parameters["samples"] > 1:
        if problem.sampler is None:
            remedy = "pass sampler=… when you make the problem, or leave out samples (--samples)"
            raise NoSamplerError(f"{maker.name} makes problems without a sampler, so no λ can be drawn; {remedy}")
        problem = problem.at(problem.sample(parameters["samples"], parameters["seed"])[parameters["sample"]])
    if parameters["action"] == "plan":
        from boundcheck.compare.plan import plan

        return row.of_plan(plan(problem, methods=parameters["methods"], seed=parameters["seed"] or 0, **how))
    from boundcheck.compare.check import check

    lam = {} if parameters["seed"] is None else {"seed": parameters["seed"]}
    return row.of_report(check(problem, parameters["methods"], **lam, proofs=False, **how))


def report(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    """Return the rows of all tasks, in the order of the grid; `sweep` adds their places."""
    return Outcome((), {"rows": [results[key] for key in sorted(results)]})

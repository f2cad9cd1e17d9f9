"""The command `boundcheck paper NAME`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from boundcheck.atomic_write import sole_use, write_whole
from boundcheck.engine.checkpoints import FOLDER
from boundcheck.engine.conduct import Conducted, conduct
from boundcheck.engine.experiment import Experiment, Settings
from boundcheck.engine.workers import workers
from boundcheck.errors import InputError, InterruptedRunError
from boundcheck.paper import load
from boundcheck.paper.output import as_json, save, show
from boundcheck.progress import duration
from boundcheck.views.terminal import console

COSTS = "costs.json"  # the cost of a step, measured before the first run, in the folder of the checkpoints
QUICK_PROCESSES = 4  # the most processes of --quick without --jobs


def paper(
    name: str, *, quick: bool, out: str, jobs: int | None, scheduler: str, seed: int | None, device: str, quiet: bool,
    silent: bool = False, budget: float | None = None, halving: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Run an experiment, write its files, show its table unless `silent`, and return its result as JSON."""
    experiment = load(name)
    return carried_out(experiment, quick, out, jobs, scheduler, seed, device, quiet, silent, budget, halving)


def carried_out(
    experiment: Experiment, quick: bool, out: str, jobs: int | None, scheduler: str, seed: int | None, device: str,
    quiet: bool, silent: bool, budget: float | None, halving: str,
) -> dict[str, Any]:  # fmt: skip
    if seed is not None and not 0 <= seed < 2**63:
        raise InputError(f"--seed {seed} is not a seed; give a whole number from 0 to 2⁶³ − 1")
    if device:
        from boundcheck.numerics.bilevel.devices import refuse_unless_usable  # loads torch

        refuse_unless_usable(device)
    settings = experiment.settings(quick, 0 if seed is None else seed, device or "cpu")
    is_shortened = budget is not None or bool(halving)
    if is_shortened:
        _refuse_unless_shortened(experiment, quick, budget)
    if jobs is None:
        jobs = min(cores(), QUICK_PROCESSES, len(experiment.tasks(settings))) if quick and not scheduler else 1
    place = Path(out or f"out/paper/{experiment.name}{'-quick' if quick else '-short' if is_shortened else ''}")

    def say(text: str) -> None:
        if not quiet:
            print(f"boundcheck: {text}", file=sys.stderr, flush=True)

    pool = workers(jobs, scheduler)
    try:
        with sole_use(place) as results:
            if is_shortened:
                settings = _shortened(experiment, settings, place, budget, halving)
            with console.progress(quiet or silent, time_left=True) as bar:
                done = conduct(experiment, settings, results, pool, say=say, bar=bar)
            save(experiment, done.outcome, settings, results)
    except KeyboardInterrupt:
        raise InterruptedRunError(f"stopped; the same command resumes from {place}") from None
    if not silent:
        show(experiment, done.outcome)
        print(summary(done, place))
    return as_json(experiment, done.outcome, settings)


def _refuse_unless_shortened(experiment: Experiment, quick: bool, budget: float | None) -> None:
    option = "--halving" if budget is None else "--budget"
    if experiment.shortened is None:
        raise InputError(f"{option} is for table1 and table2; {experiment.name} has no grid of step sizes")
    if quick:
        raise InputError(f"{option} and --quick were given together; leave out one of them")


def _shortened(
    experiment: Experiment, settings: Settings, place: Path, budget: float | None, halving: str
) -> Settings:  # fmt: skip
    """Return the settings that fit into the budget. Costs are measured once and stored with the checkpoints."""
    assert experiment.shortened is not None
    assert experiment.measured is not None
    if budget is None:
        shorter = experiment.shortened(settings, halving, None, {})  # refuses a wrong rule before data are needed
        experiment.ready(settings)
        return shorter
    experiment.ready(settings)
    path = place / FOLDER / COSTS
    if path.exists():
        try:
            costs = json.loads(path.read_text(encoding="utf-8"))
            return experiment.shortened(settings, halving, budget, costs)
        except (OSError, ValueError, KeyError, TypeError) as why:
            if isinstance(why, InputError):
                raise
            raise InputError(
                f"{path} cannot be read ({type(why).__name__}); remove {path.parent}, or give another --out"
            ) from None
    costs = experiment.measured(settings)
    shorter = experiment.shortened(settings, halving, budget, costs)  # raises before anything is written
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(costs).encode(), durable=True)
    return shorter


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def summary(done: Conducted, place: Path) -> str:
    before = f", {done.from_before} of them from before" if done.from_before else ""
    return f"{done.runs} runs{before}, {duration(done.seconds)} of computing; written to {place}"

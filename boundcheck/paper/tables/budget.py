"""Choose the part of the tables that fits into a budget, from the cost of a step that is measured once before all runs.

The choices for each data set are the whole grid with the published s, successive halving with the published s, and
halving with a half of it, a quarter, and so on. Each data set starts with the cheapest choice. While the budget allows,
the data set with the least additional cost gets the next one. The measured costs are stored with the checkpoints, so a
resumed run has the same plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from boundcheck.engine.experiment import Settings, Task
from boundcheck.engine.slices import threads
from boundcheck.errors import InputError
from boundcheck.paper.tables.data import SECONDS, TABLES, loaded
from boundcheck.paper.tables.halving import HalvingRule, rounds
from boundcheck.paper.tables.outer_loop import OuterDescent
from boundcheck.progress import duration

KEPT = 0.8  # the fraction of the budget that is planned; the rest is for costs that the model does not have
LEAST_EXACT = 50  # the least number of steps towards w(λ)

Tasks = Callable[[Settings], list[Task]]


def measured(settings: Settings) -> dict[str, dict[str, float]]:
    """Return for each data set the seconds to load it, and the ratio of the seconds of a step on λ to `SECONDS`.

    On a CPU, processor time is measured, so that other work on the machine does not change the plan.
    """
    clock = time.process_time if torch.device(settings["device"]).type == "cpu" else time.perf_counter
    costs = {}
    for name, of_data in settings["data"].items():
        table, t = TABLES[name], min(of_data["t"])
        parameters = {"data": name, "options": of_data["options"]} | {key: settings[key] for key in ("seed", "device")}
        with threads(1):
            start = clock()
            problem = loaded(parameters).problem
            load, zeta = clock() - start, torch.tensor(of_data["zeta"][: table.together])
            descent = OuterDescent.start(problem, len(zeta))
            for _ in range(2):  # the first one warms up
                start = clock()
                descent.step(problem, "itd", 0 * zeta.to(problem.lam), t, table.warm, table.within)
                seconds = clock() - start
        factor = seconds / SECONDS[name](len(zeta), t, t)
        costs[name] = {"load": float(f"{load:.3g}"), "factor": float(f"{factor:.3g}")}
    return costs


def shortened(
    settings: Settings, halving: str, budget: float | None, costs: Mapping[str, Mapping[str, float]], tasks: Tasks
) -> Settings:
    """Return the settings with the rule of `--halving`, or those that fit into a budget in seconds."""
    rule = HalvingRule.read(halving or str(HalvingRule()))
    whole = settings | {"halving": str(rule), "budget": budget}
    if budget is None:
        return whole | {"data": {name: _halved(of_data, rule, 1) for name, of_data in settings["data"].items()}}
    choices = {
        name: list(_choices(of_data, rule, whole_grid=not halving)) for name, of_data in settings["data"].items()
    }
    seconds = {
        name: [_seconds(settings, name, of_data, costs[name], tasks) for of_data in options]
        for name, options in choices.items()
    }
    indices = _affordable(seconds, KEPT * budget)
    if not indices:
        name, least = min(((name, costs_of[-1]) for name, costs_of in seconds.items()), key=lambda pair: pair[1])
        raise InputError(
            f"--budget of {duration(budget)} is too short: the least of {name} alone takes about "
            f"{duration(least / KEPT)}; give more"
        )
    planned = sum(seconds[name][i] for name, i in indices.items())
    data = {name: choices[name][indices[name]] for name in settings["data"] if name in indices}
    return whole | {"data": data, "planned": float(f"{planned:.3g}"), "costs": {k: dict(v) for k, v in costs.items()}}


def _affordable(seconds: Mapping[str, list[float]], budget: float) -> dict[str, int]:
    """Return the index of the choice for each data set that fits. Choices are sorted, the most expensive one first."""
    indices = {name: len(costs) - 1 for name, costs in seconds.items()}

    def total() -> float:
        return sum(seconds[name][i] for name, i in indices.items())

    while indices and total() > budget:
        del indices[max(indices, key=lambda name: seconds[name][-1])]
    while True:
        more = {name: seconds[name][i - 1] - seconds[name][i] for name, i in indices.items() if i > 0}
        fitting = [name for name, extra in more.items() if total() + extra <= budget]
        if not fitting:
            return indices
        indices[min(fitting, key=lambda name: more[name])] -= 1


def _choices(of_data: Mapping[str, Any], rule: HalvingRule, *, whole_grid: bool) -> Iterator[dict[str, Any]]:
    if whole_grid:
        yield dict(of_data)
    yield _halved(of_data, rule, 1)
    part, least = 2, len(rounds(len(of_data["zeta"]), of_data["s"], HalvingRule(rule.divisor)))
    while of_data["s"] // part >= rule.divisor ** (least - 1):
        yield _halved(of_data, rule, part)
        part *= 2


def _halved(of_data: Mapping[str, Any], rule: HalvingRule, part: int) -> dict[str, Any]:
    s, exact = of_data["s"] // part, of_data["exact"]
    if exact and part > 1:
        exact = max(LEAST_EXACT, exact // part)
    return {**of_data, "s": s, "exact": exact, "rounds": rounds(len(of_data["zeta"]), s, rule)}


def _seconds(
    settings: Settings, name: str, of_data: dict[str, Any], costs: Mapping[str, float], tasks: Tasks
) -> float:  # fmt: skip
    """Return the seconds for all tasks of a data set."""
    alone = settings | {"data": {name: of_data}}
    return costs["load"] + costs["factor"] * sum(task.cost for task in tasks(alone))

"""The runs of tables 1 and 2: gradient descent on λ for each data set, t, method and batch of step sizes."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boundcheck.engine.experiment import Settings, Step, Task
from boundcheck.errors import UnknownNameError
from boundcheck.paper.tables import budget
from boundcheck.paper.tables.data import READ, SECONDS, TABLES, Loaded, Table, loaded
from boundcheck.paper.tables.halving import halve, work
from boundcheck.paper.tables.hypergradient_error import hypergradient_error
from boundcheck.paper.tables.outer_loop import OuterDescent

ONLY = "BOUNDCHECK_TABLES"  # environment variable with the data sets to run, separated by commas
COUNT = 30  # the number of step sizes
PIECE = 25  # lower-level steps towards w(λ) between two checkpoints
QUICK: dict[str, dict[str, Any]] = {
    "parkinson": {"t": [100], "s": 30, "steps": [18, 22, 25]},
    "newsgroups": {"t": [10], "s": 15, "steps": [18, 20], "exact": 200},
    "fashion-mnist": {"t": [5, 10], "s": 40, "steps": [11, 12, 13], "options": {"validation_size": 6000}},
}


def settings(quick: bool, seed: int, device: str, *, exact: bool) -> Settings:
    """Return the published settings, or smaller ones with `quick`; with `exact`, w(λ) is computed too."""
    by_data = {}
    for name in _requested_tables():
        table, cut = TABLES[name], QUICK[name] if quick else {}
        grid = np.logspace(*table.exponents, COUNT)
        by_data[name] = {
            "t": cut.get("t", list(table.t)),
            "s": cut.get("s", table.s),
            "zeta": [float(f"{zeta:.6g}") for zeta in (grid[cut["steps"]] if quick else grid)],
            "exact": (cut.get("exact", table.exact)) if exact else None,
            "options": {**table.options, **cut.get("options", {})},
        }
    return {"quick": quick, "seed": seed, "device": device, "data": by_data}


def _requested_tables() -> Sequence[str]:
    text = os.environ.get(ONLY, "")
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in TABLES:
            raise UnknownNameError.among(f"data set in {ONLY}", name, list(TABLES))
    return [name for name in TABLES if name in names] or list(TABLES)


def ready(settings: Settings) -> None:
    """Read the data of all runs, so that missing files are reported before anything is written."""
    for name, of_data in settings["data"].items():
        if not of_data["options"].get("synthetic"):
            READ[name]()


def tasks(settings: Settings) -> list[Task]:
    all_tasks = []
    for name, of_data in settings["data"].items():
        table, plan = TABLES[name], of_data.get("rounds")
        size = len(of_data["zeta"]) if plan else table.together
        batches = [of_data["zeta"][i : i + size] for i in range(0, len(of_data["zeta"]), size)]
        shared = {"data": name, "seed": settings["seed"], "device": settings["device"], "options": of_data["options"]}
        shared |= {"s": of_data["s"], "exact": of_data["exact"], **({"rounds": plan} if plan else {})}
        for t in of_data["t"]:
            for method in table.methods(t).values():
                for i, zeta in enumerate(batches):
                    parameters = {**shared, "t": t, "method": method, "zeta": zeta}
                    all_tasks.append(Task(f"{key(name, t, method)}.{i:02d}", parameters, _cost(parameters)))
    return all_tasks


def key(name: str, t: int, method: str) -> str:
    return f"{name}-t={t}-{method.replace(':', '-k=')}"


def _cost(parameters: dict[str, Any]) -> float:
    """Return the approximate seconds of a task."""
    t, k = parameters["t"], int(parameters["method"].partition(":")[2] or parameters["t"])
    seconds, plan = (
        SECONDS[parameters["data"]],
        parameters.get("rounds") or [[len(parameters["zeta"]), parameters["s"]]],
    )
    upper = sum(steps * seconds(count, t, k) for count, steps in work(plan, TABLES[parameters["data"]].together))
    lower = SECONDS[parameters["data"]](1, 1, 0) if parameters["data"] == "newsgroups" else 0.0002
    return float(upper + (parameters["exact"] or 0) * lower)


def measured(settings: Settings) -> dict[str, dict[str, float]]:
    """Return the cost of a step on this machine, for `shortened`."""
    return budget.measured(settings)


def shortened(settings: Settings, halving: str, seconds: float | None, costs: dict[str, dict[str, float]]) -> Settings:
    """Return the settings with successive halving of step sizes that fit into a budget in seconds."""
    return budget.shortened(settings, halving, seconds, costs, tasks)


def run(task: Task, state: dict[str, Any] | None) -> Generator[Step, None, dict[str, Any]]:
    """Take s steps for a batch of step sizes, then compute f_t(λ_s), and w(λ_s) of the best step size if requested."""
    parameters = task.parameters
    data, table = loaded(parameters), TABLES[parameters["data"]]
    problem, exact = data.problem, parameters["exact"] or 0
    pieces = -(-exact // PIECE)
    plan = parameters.get("rounds")
    upper = sum(steps for _, steps in work(plan, table.together)) if plan else parameters["s"]
    total = upper + pieces
    if state is not None and "ended" in state:
        summary, done = dict(state["ended"]), state["pieces"]
        lam, z = (state[name].to(problem.device) for name in ("lam", "z"))
    else:
        summary, lam = yield from (halve if plan else _grid)(data, table, parameters, state, total)
        if lam is None or parameters["exact"] is None:
            return summary
        z, done = problem.dynamics.start(problem.w0), 0
    prepared = problem.prepare(lam)
    if problem.solution is not None and not exact:
        z = problem.dynamics.start(problem.solution(prepared))
    while done < pieces:
        with torch.no_grad():
            for _ in range(min(PIECE, exact - done * PIECE)):
                z = problem.psi_at(z, prepared)
        done += 1
        yield Step({"ended": summary, "lam": lam, "z": z, "pieces": done}, upper + done, total)
    w = problem.dynamics.iterate(z)
    return {**summary, "f": float(problem.outer_at(w, prepared)), "accuracy": data.accuracy(lam, w)}


def _grid(
    data: Loaded, table: Table, parameters: Mapping[str, Any], state: dict[str, Any] | None, of: float
) -> Generator[Step, None, tuple[dict[str, Any], Tensor | None]]:
    """Take s steps for every step size of the batch; returns the summary, and λ_s of the best step size."""
    problem, t = data.problem, parameters["t"]
    zeta = torch.tensor(parameters["zeta"], dtype=problem.dtype, device=problem.device)
    descent = OuterDescent.start(problem, len(zeta)) if state is None else _read(state, problem.device)
    while descent.done < parameters["s"]:
        descent = descent.step(problem, parameters["method"], zeta, t, table.warm, table.within)
        yield Step(vars(descent), descent.done, of)
    w = descent.last(problem, t, table.warm) if len(descent.alive) else descent.w
    summary, best = _summary(data, descent, w, parameters["zeta"])
    if best is None:
        return summary, None
    lam, first = descent.lam[best].clone(), descent.first(problem, table.warm)[best]
    return summary | {"error": hypergradient_error(problem, table, parameters["method"], lam, first, t)}, lam


def _read(state: dict[str, Any], device: torch.device) -> OuterDescent:
    tensors = {name: state[name].to(device) for name in ("alive", "lam", "w")}
    return OuterDescent(done=state["done"], definite=state["definite"], **tensors)


def _summary(
    data: Loaded, descent: OuterDescent, w: Tensor, zeta: Sequence[float]
) -> tuple[dict[str, Any], int | None]:  # fmt: skip
    """Return a summary with f_t(λ_s) of every step size (None if it diverged), and the row of the best one."""
    problem, values = data.problem, []
    for lam, w_of_lam in zip(descent.lam, w, strict=True):
        values.append(float(problem.outer_at(w_of_lam, problem.prepare(lam))))
    f_t: list[float | None] = [None] * len(zeta)
    for i, value in zip(descent.alive.tolist(), values, strict=True):
        f_t[i] = value if np.isfinite(value) else None
    summary: dict[str, Any] = {"zeta": list(zeta), "f_t": f_t, "best": None, "definite": descent.definite}
    finite = [row for row, value in enumerate(values) if np.isfinite(value)]
    if not finite:
        return summary, None
    best = min(finite, key=lambda row: values[row])
    accuracy = data.accuracy(descent.lam[best], w[best])
    return summary | {"best": int(descent.alive[best]), "accuracy_t": accuracy}, best

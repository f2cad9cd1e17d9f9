"""An experiment small enough to be killed often: random walks with a matrix, one number a step.

Run as a script it is `boundcheck paper toy …`, with a checkpoint every few steps. TOY_PAUSE makes a step last, and
TOY_LOG is a file to which each step writes its run, its number and its process; TOY_ANSWER is how long a scheduler has.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
import torch

from boundcheck.engine.experiment import Claim, Experiment, Outcome, Settings, Step, Task
from boundcheck.errors import InputError

NAME, TITLE = "toy", "random walks"
STEPS, RUNS = 30, 4


def settings(quick: bool, seed: int, device: str) -> Settings:
    return {"quick": quick, "seed": seed, "device": device, "runs": 2 if quick else RUNS}


def ready(settings: Settings) -> None:
    if os.environ.get("TOY_DATA") == "none":
        raise InputError("walks.csv not found: put it at $BOUNDCHECK_DATA/walks.csv")


def tasks(settings: Settings) -> list[Task]:
    return [Task(f"walk-{i}", {"seed": settings["seed"] + i}, cost=i + 1) for i in range(settings["runs"])]


def run(task: Task, state: dict[str, Any] | None) -> Generator[Step, None, dict[str, Any]]:
    generator = torch.Generator().manual_seed(task.parameters["seed"])
    A = torch.randn(60, 60, generator=generator)
    w, result, start = torch.ones(60), np.empty(0), 0
    if state is not None:
        generator.set_state(state["generator"])
        w, result, start = state["w"], state["found"], state["step"]
    for step in range(start, STEPS):
        time.sleep(float(os.environ.get("TOY_PAUSE", "0")))
        w = torch.tanh(A @ w + torch.randn(60, generator=generator))
        result = np.append(result, float(w.sum()))
        if log := os.environ.get("TOY_LOG"):
            with open(log, "a") as file:
                file.write(f"{task.key} {step} {os.getpid()}\n")
        yield Step({"generator": generator.get_state(), "w": w, "found": result, "step": step + 1}, step + 1, STEPS)
    return {"found": result, "w": w, "last": float(result[-1]), "nothing": float("nan"), "pair": (1, "two")}


def report(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 2))
    figure.add_axes((0.1, 0.1, 0.8, 0.8)).plot([one["last"] for one in results.values()])
    claims = [
        Claim(f"where {key} ends", "nowhere", 0.0, one["last"], one["last"], "by chance")
        for key, one in results.items()
    ]
    data = {
        key: {"found": one["found"], "w": one["w"].numpy(), "nothing": one["nothing"]} for key, one in results.items()
    }
    return Outcome(claims, data, {"toy": figure}, ["walks are random"])


def main() -> None:
    import toy

    from boundcheck import cli
    from boundcheck.engine import conduct, workers
    from boundcheck.paper import command

    workers.ANSWER = int(os.environ.get("TOY_ANSWER", workers.ANSWER))
    conduct.SECONDS = conduct.TRIAL = 5 * float(os.environ.get("TOY_PAUSE", "0"))
    command.load = lambda name: Experiment.of(toy)  # by its name, so that other processes find it
    sys.argv = ["boundcheck", "paper", "toy", *sys.argv[1:]]
    cli.main()


if __name__ == "__main__":
    main()

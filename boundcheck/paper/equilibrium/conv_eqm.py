"""The paper's figure of convolutional equilibrium models: as `eqm`, with the projection of K by Sedghi et al.

The paper compares the two models, so FP with projection is also run on the model of `eqm`, with the same data and
steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boundcheck.engine.experiment import Outcome, Settings, Task
from boundcheck.paper.equilibrium import training
from boundcheck.paper.equilibrium.training import ready, run

NAME = "conv-eqm"
TITLE = "convolutional equilibrium model on MNIST, K projected as by Sedghi et al. or not"
DENSE = "dense-"  # the prefix of the keys of runs on the model of `eqm`
__all__ = ["DENSE", "NAME", "TITLE", "ready", "report", "run", "settings", "tasks"]


def settings(quick: bool, seed: int, device: str) -> Settings:
    return {
        **training.shared(quick, seed, device),
        "problem": "conv-eqm",
        "hidden": 10,
        "radius": 0.999,
        "size": 40 if quick else 5000,
        "test_size": 300 if quick else 10000,
        "steps": 30 if quick else 1500,
        "step_sizes": [0.05, 0.1] if quick else [0.01, 0.02, 0.05, 0.1, 0.2],
        "shown": {"projected": 0.1, "free": 0.05},  # smaller without projection, as in the paper
        "dense": {"problem": "eqm", "hidden": 200, "radius": 0.99, "step_size": 0.2},
    }


def tasks(settings: Settings) -> list[Task]:
    dense = {**settings, **settings["dense"]}
    dense_tasks = [
        training.task(dense, "aid-fp", True, dense["step_size"], seed, DENSE) for seed in range(settings["seeds"])
    ]
    return training.tasks(settings) + dense_tasks


def report(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    from boundcheck.paper.equilibrium.views import claims

    return claims.convolutional(settings, results)

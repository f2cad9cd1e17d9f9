"""The paper's picture of state maps: w_0 … w_20 of the convolutional model for a three and a six.

The model is trained by FP with projection, as in `conv-eqm`. Then the map is iterated on two test images. More
iterations give the fixed point, and thus the distance of w_20 from it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
import torch

from boundcheck.engine.experiment import Outcome, Settings, Step, Task
from boundcheck.errors import InputError
from boundcheck.paper.equilibrium import conv_eqm, training
from boundcheck.paper.equilibrium.training import ready
from boundcheck.problems.parts.labelled_examples import Examples

NAME = "states"
TITLE = "state maps of the convolutional equilibrium model over the iterations"
KEY = "states"
__all__ = ["NAME", "TITLE", "ready", "report", "run", "settings", "tasks"]


def settings(quick: bool, seed: int, device: str) -> Settings:
    shared = conv_eqm.settings(quick, seed, device)
    del shared["dense"], shared["step_sizes"], shared["seeds"]
    step = shared.pop("shown")["projected"]
    more = {"size": 100, "steps": 120} if quick else {}
    return {**shared, "step_size": step, "digits": [3, 6], **more}


def tasks(settings: Settings) -> list[Task]:
    task = training.task(settings, "aid-fp", True, settings["step_size"], 0)
    return [Task(KEY, task.parameters, task.cost)]


def run(task: Task, state: dict[str, Any] | None) -> Generator[Step, None, dict[str, Any]]:
    trained = yield from training.train(task, state)
    maps = iterated(task.parameters, trained.pop("lam"))
    return {**trained, **maps}


def iterated(parameters: Mapping[str, Any], lam: torch.Tensor) -> dict[str, Any]:
    """Return w_0 … w_t of the first test image of each digit, and their distances from w after `long` more steps."""
    model = training.model(parameters)
    labels = model.test.Y.argmax(-1)
    indices = [int((labels == digit).nonzero()[0]) for digit in parameters["digits"] if bool((labels == digit).any())]
    if len(indices) < len(parameters["digits"]):
        raise InputError(f"digits = {parameters['digits']} are not all among the test images; give a larger test_size")
    problem = training.on(parameters, Examples(model.test.X[indices], model.test.Y[indices]))
    ready = problem.prepare(lam)
    w, states = problem.w0, []
    for _ in range(parameters["t"] + 1):
        states.append(w.reshape(ready.drive.shape))
        w = problem.phi_at(w, ready)
    for _ in range(parameters["long"]):
        w = problem.phi_at(w, ready)
    end, maps = w.reshape(len(indices), -1), torch.stack(states, dim=1)
    distance = maps.reshape(len(indices), len(states), -1) - end[:, None]
    moved = (problem.phi_at(w, ready) - w).reshape(len(indices), -1).norm(dim=-1) / end.norm(dim=-1)
    return {
        "maps": maps.cpu().numpy(),
        "images": model.test.X[indices].cpu().numpy(),
        "distance": (distance.norm(dim=-1) / end.norm(dim=-1)[:, None]).cpu().numpy(),
        "still_moves": moved.cpu().numpy(),
    }


def report(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    from boundcheck.paper.equilibrium.views import states_claims

    result = results[KEY]
    data = {name: result[name] for name in ("objective", "accuracy", "norm", "distance", "still_moves")}
    mean_moves = np.abs(np.diff(result["maps"], axis=1)).mean(axis=(2, 3, 4))
    return states_claims.outcome(settings, result, {**data, "mean_change": mean_moves})

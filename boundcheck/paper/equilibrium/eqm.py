"""The paper's figure of equilibrium models: training on 5000 images of MNIST, with and without projection of A.

The figure shows the training objective, the test accuracy and the norm of the hypergradient over the steps for ITD, FP
and CG on the normal equations, and how the final test accuracy depends on the step size. Each (method, projection, step
size, seed) is a run; the seed only draws λ_0. In each run, ‖A‖ and the residuals show whether Φ is a contraction, and
otherwise what still converges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boundcheck.engine.experiment import Outcome, Settings
from boundcheck.paper.equilibrium import training
from boundcheck.paper.equilibrium.training import ready, run, tasks

NAME = "eqm"
TITLE = "equilibrium model on MNIST: objective, test accuracy, ‖g‖, sensitivity to the step size, with ‖A‖ < 1 or not"
__all__ = ["NAME", "TITLE", "ready", "report", "run", "settings", "tasks"]


def settings(quick: bool, seed: int, device: str) -> Settings:
    return {
        **training.shared(quick, seed, device),
        "problem": "eqm",
        "hidden": 200,
        "radius": 0.99,
        "size": 250 if quick else 5000,
        "steps": 40 if quick else 1500,
        "step_sizes": [0.1, 0.2, 0.5] if quick else [0.03, 0.1, 0.2, 0.5, 1.0],
        "shown": {"projected": 0.2, "free": 0.2},
    }


def report(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    from boundcheck.paper.equilibrium.views import claims

    return claims.dense(settings, results)

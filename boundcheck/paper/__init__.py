"""The figures and tables of the paper, as in `boundcheck paper fig1`.

An experiment is a module with NAME, TITLE, `settings`, `tasks`, `run` and `report` (see `engine/experiment.py` of the
package). Experiments that share code are in one folder; its `views/` contains the code that only shows results.
"""

from __future__ import annotations

from importlib import import_module

from boundcheck.engine.experiment import Experiment
from boundcheck.errors import UnknownNameError

EXPERIMENTS = {
    "conv-eqm": "equilibrium.conv_eqm",
    "eqm": "equilibrium.eqm",
    "fig1": "fig1.experiment",
    "states": "equilibrium.states",
    "table1": "tables.table1",
    "table2": "tables.table2",
    "tightness": "tightness.experiment",
}


def names() -> list[str]:
    """Return the names of the experiments."""
    return sorted(EXPERIMENTS)


def load(name: str) -> Experiment:
    """Return the experiment of this name, without importing the others."""
    if name not in EXPERIMENTS:
        raise UnknownNameError.among("experiment", name, names())
    return Experiment.of(import_module(f"{__name__}.{EXPERIMENTS[name]}"))

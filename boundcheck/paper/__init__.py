"""The paper's figures and tables: `boundcheck paper fig1`.

An experiment is a module with NAME, TITLE, `settings`, `tasks`, `run` and `report` (see `engine/experiment.py` of the
package). It has a folder, alone or with those that share its code; what only shows results is in the folder's `views/`.
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
    """What `boundcheck paper` takes."""
    return sorted(EXPERIMENTS)


def load(name: str) -> Experiment:
    """The experiment of this name; nothing else is imported."""
    if name not in EXPERIMENTS:
        raise UnknownNameError.among("experiment", name, names())
    return Experiment.of(import_module(f"{__name__}.{EXPERIMENTS[name]}"))

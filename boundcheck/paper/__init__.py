"""The paper's figures and tables, one experiment a file: `boundcheck paper fig1`.

A file here is found by itself. It holds NAME, TITLE, `settings`, `tasks`, `run` and `report` (see `_experiment.py`);
files whose name starts with an underscore hold the engine, or what several experiments share.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from boundcheck.errors import UnknownNameError
from boundcheck.paper._experiment import Experiment


def names() -> list[str]:
    """What `boundcheck paper` takes: the file of an experiment is named like it, with _ for -."""
    files = (info.name for info in pkgutil.iter_modules(__path__))
    return sorted(name.replace("_", "-") for name in files if not name.startswith("_"))


def load(name: str) -> Experiment:
    """The experiment of this name; nothing else is imported."""
    if name not in names():
        raise UnknownNameError.among("experiment", name, names())
    return Experiment.of(import_module(f"{__name__}.{name.replace('-', '_')}"))

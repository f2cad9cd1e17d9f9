"""The built-in problems, one file each: `problems.logistic_regression(seed=0)`, or `CATALOGUE["lr"].make(seed=0)`.

Files in this folder are found automatically. A file has NAME (the short name), TITLE and `make(*, seed, dtype, device,
…)`. Code that several problems share is in `parts/`. `loading.py` loads problems by name, or from users' files.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, wraps
from importlib import import_module
from typing import Any

from boundcheck.numerics.bilevel import devices
from boundcheck.numerics.bilevel.problem import Problem


@dataclass(frozen=True)
class Entry:
    """One built-in problem.

    Attributes
    ----------
    name : str
        The short name for `load_problem`.
    file : str
        The name of the file, and of the function in `boundcheck.problems`.
    title : str
        The problem in words.
    make : callable (**options) -> Problem
        The function that makes the problem.
    """

    name: str
    file: str
    title: str
    make: Callable[..., Problem]


def _remembering(make: Callable[..., Problem]) -> Callable[..., Problem]:
    """Return the function with memory: its problems can be made again in another dtype, with the same data."""

    @wraps(make)
    def remembered(**options: Any) -> Problem:
        if options.get("device") is not None:
            devices.refuse_unless_usable(options["device"])
        return replace(make(**options), remake=partial(remembered, **options))

    return remembered


def _discover() -> dict[str, Entry]:
    entries = []
    for info in pkgutil.iter_modules(__path__):
        if not info.ispkg and info.name != "loading":
            module = import_module(f"{__name__}.{info.name}")
            entries.append(Entry(module.NAME, info.name, module.TITLE, _remembering(module.make)))
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


CATALOGUE = _discover()
globals().update({entry.file: entry.make for entry in CATALOGUE.values()})  # functions in place of their modules


def __getattr__(name: str) -> Any:  # only called for unknown names; also lets type checkers accept the names above
    raise AttributeError(f"no problem file {name!r}; known: {', '.join(entry.file for entry in CATALOGUE.values())}")

"""The built-in problems, one file each: `problems.logistic_regression(seed=0)`, or `CATALOGUE["lr"].make(seed=0)`.

A file here is found by itself. It holds NAME (the short name), TITLE and `make(*, seed, dtype, device, …)`. What
several problems share is in `parts/`; `loading.py` finds problems by name, and in users' files.
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
        Its short name, as `load_problem` takes it.
    file : str
        The name of its file, and of its function in `boundcheck.problems`.
    title : str
        The problem in words.
    make : callable (**options) -> Problem
        The function that makes it.
    """

    name: str
    file: str
    title: str
    make: Callable[..., Problem]


def _remembering(make: Callable[..., Problem]) -> Callable[..., Problem]:
    """The same function; what it makes can be made again in another dtype, with the same data."""

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
globals().update({entry.file: entry.make for entry in CATALOGUE.values()})  # the function in the place of its module


def __getattr__(name: str) -> Any:  # reached for unknown names only; its type tells checkers that the names above exist
    raise AttributeError(f"no problem file {name!r}; known: {', '.join(entry.file for entry in CATALOGUE.values())}")

"""What an experiment is: independent runs that can be stopped after each step, and a report on what they found.

A file of an experiment holds

    NAME, TITLE
    settings(quick, seed, device) -> dict    all that results depend on, as JSON
    tasks(settings) -> list[Task]            the independent runs
    run(task, state) -> result               a function, or a generator that yields a `Step` and returns the result
    report(settings, results) -> Outcome     from the result of each task, by key

and, if it needs them,

    ready(settings) -> None                  raises InputError where data are missing, before anything is written
    measured(settings) -> costs              what a step costs on this machine, as JSON
    shortened(settings, halving, seconds, costs) -> Settings   what fits into a budget; None seconds: no budget
    THREADS                                  of torch in each run, 1 unless given: other numbers round differently

`run` is pure: the same task gives the same result, in whatever process, and continued from the state of any of its
steps it gives the result that it would have given without a stop. States and results are made of numbers, strings,
None, numpy arrays, tensors, and lists, tuples and dicts of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from boundcheck.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Settings = dict[str, Any]
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")


@dataclass(frozen=True)
class Task:
    """An independent run: `key` names its files, `parameters` say what to do, `cost` how long it takes, relatively."""

    key: str
    parameters: Mapping[str, Any]
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not KEY.fullmatch(self.key):
            raise InputError(f"key = {self.key!r} cannot be used as a file name; use letters, digits and . _ = -")


@dataclass(frozen=True, eq=False)
class Step:
    """Where a run stands: from `state` it can go on; `done` of `of` steps are made."""

    state: Any
    done: float
    of: float


@dataclass(frozen=True)
class Claim:
    """A number or a claim of the paper beside ours."""

    what: str
    where: str  # in the paper
    published: str | float
    ours: str | float
    difference: str | float = ""
    why: str = ""
    holds: bool | None = None  # None where it is a number, or was not decided


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an experiment found: claims, all numbers by name (arrays too), figures and tables by name, and notes."""

    claims: Sequence[Claim]
    data: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tables: Mapping[str, str] = field(default_factory=dict)  # in markdown


def _nothing(settings: Settings) -> None:
    """No data are needed."""


@dataclass(frozen=True)
class Experiment:
    """The contents of its file, which processes import by name."""

    module: str
    name: str
    title: str
    settings: Callable[[bool, int, str], Settings]
    tasks: Callable[[Settings], Sequence[Task]]
    run: Callable[[Task, Any], Generator[Step, None, Any] | Any]
    report: Callable[[Settings, Mapping[str, Any]], Outcome]
    ready: Callable[[Settings], None]
    threads: int
    measured: Callable[[Settings], dict[str, Any]] | None = None
    shortened: Callable[[Settings, str, float | None, dict[str, Any]], Settings] | None = None

    @classmethod
    def of(cls, module: ModuleType) -> Experiment:
        return cls(
            module=module.__name__, name=module.NAME, title=module.TITLE, settings=module.settings, tasks=module.tasks,
            run=module.run, report=module.report, ready=getattr(module, "ready", _nothing),
            threads=getattr(module, "THREADS", 1), measured=getattr(module, "measured", None),
            shortened=getattr(module, "shortened", None),
        )  # fmt: skip

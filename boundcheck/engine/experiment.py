"""The definition of an experiment: independent runs that can be stopped after each step, and a report.

The module of an experiment defines

    NAME, TITLE
    settings(quick, seed, device) -> dict    everything that results depend on, as JSON
    tasks(settings) -> list[Task]            the independent runs
    run(task, state) -> result               a function, or a generator that yields a `Step` and returns the result
    report(settings, results) -> Outcome     `results` has the result of each task by its key

and optionally

    ready(settings) -> None                  raise InputError if data are missing, before anything is written
    measured(settings) -> costs              the cost of a step on this machine, as JSON
    shortened(settings, halving, seconds, costs) -> Settings   settings that fit into a budget; None: no budget
    THREADS                                  threads of torch in each run, 1 by default; rounding depends on them

`run` is pure: the same task gives the same result in every process, and a run that continues from the state of a step
gives the same result as a run without a stop. States and results are made of numbers, strings, None, numpy arrays,
tensors, and lists, tuples and dicts of these.
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
    """An independent run: `key` names its files, `parameters` are the input, `cost` is the relative time it takes."""

    key: str
    parameters: Mapping[str, Any]
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not KEY.fullmatch(self.key):
            raise InputError(f"key = {self.key!r} cannot be used as a file name; use letters, digits and . _ = -")


@dataclass(frozen=True, eq=False)
class Step:
    """The state of a run after `done` of `of` steps. The run can continue from `state`."""

    state: Any
    done: float
    of: float


@dataclass(frozen=True)
class Claim:
    """A number or a statement of the paper, and ours."""

    what: str
    where: str  # the place in the paper
    published: str | float
    ours: str | float
    difference: str | float = ""
    why: str = ""
    holds: bool | None = None  # None for a number, or if undecided


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results of an experiment: claims, notes, and numbers and arrays, figures and tables by name."""

    claims: Sequence[Claim]
    data: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tables: Mapping[str, str] = field(default_factory=dict)  # in markdown


def _nothing(settings: Settings) -> None:
    """Do nothing: the experiment needs no data."""


@dataclass(frozen=True)
class Experiment:
    """The contents of the module of an experiment. Processes import the module by its name."""

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

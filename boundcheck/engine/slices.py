"""A run, a slice of some seconds at a time: in this process, in another one or on another machine, it is the same call.

Whoever calls gets back the state or the result and writes it down, so workers need no common file system, and one that
dies costs a slice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import isgenerator
from typing import Any, cast

from boundcheck import __version__
from boundcheck.engine.experiment import Experiment, Step, Task
from boundcheck.errors import InputError


@dataclass(frozen=True, eq=False)
class Slice:
    """The end of a slice: the result if `finished`, else a state to go on from; `done` is the finished part, 0 … 1.

    `pace` is the seconds that all of the run would take at the speed after the first step of the slice, which may have
    loaded data; None if there was no second one.
    """

    finished: bool
    content: Any
    done: float
    seconds: float
    pace: float | None = None


class StoppedError(KeyboardInterrupt):
    """Ctrl-C in the middle of a slice, with the state so far."""

    def __init__(self, last: Slice) -> None:
        super().__init__()
        self.last = last


def advance(module: str, task: Task, state: Any, seconds: float, version: str = __version__, least: int = 1) -> Slice:
    """Continue a run from `state` (None at the start) for `seconds`, but for at least `least` steps."""
    if version != __version__:
        raise InputError(f"a worker has boundcheck {__version__}, this is {version}; install the same one on both")
    experiment = Experiment.of(import_module(module))
    start = time.perf_counter()  # after what a new process needs to load
    last: Step | None = None
    steps = 0
    first: tuple[float, float] | None = None  # when the first step was made, and how much there was then

    def until_here(step: Step) -> Slice:
        return Slice(False, step.state, step.done / step.of, time.perf_counter() - start, pace(step))

    def pace(step: Step) -> float | None:
        more = 0.0 if first is None else step.done / step.of - first[1]
        return None if first is None or more <= 0 else (time.perf_counter() - first[0]) / more

    try:
        with threads(experiment.threads):
            running = experiment.run(task, state)
            while isgenerator(running):
                try:
                    step = cast(Step, next(running))
                except StopIteration as end:
                    running = end.value
                else:
                    last, steps = step, steps + 1
                    first = first or (time.perf_counter(), step.done / step.of)
                    if steps >= least and time.perf_counter() - start >= seconds:
                        return until_here(step)
    except KeyboardInterrupt:
        if last is None:
            raise
        raise StoppedError(until_here(last)) from None
    return Slice(True, running, 1.0, time.perf_counter() - start, None if last is None else pace(last))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Sums are split among threads, so the last bits of a result depend on how many there are."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

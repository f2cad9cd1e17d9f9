"""Run a task in slices of some seconds. The same call works in this process, in another process or on a cluster.

The caller gets back the state or the result, and stores it. So workers need no common file system, and if a worker
dies, one slice is lost.
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
    """A slice of a run: the result if `finished`, else the state; `done` is the finished part of the run, 0 … 1.

    `pace` is the seconds that the whole run would take at the speed of the slice without its first step, which may
    have loaded data; None if the slice has one step.
    """

    finished: bool
    content: Any
    done: float
    seconds: float
    pace: float | None = None


class StoppedError(KeyboardInterrupt):
    """Ctrl-C within a slice, with the state after its last step."""

    def __init__(self, last: Slice) -> None:
        super().__init__()
        self.last = last


def advance(module: str, task: Task, state: Any, seconds: float, version: str = __version__, least: int = 1) -> Slice:
    """Continue a run from `state` (None at the start) for `seconds`, and for at least `least` steps."""
    if version != __version__:
        raise InputError(f"a worker has boundcheck {__version__}, this is {version}; install the same one on both")
    experiment = Experiment.of(import_module(module))
    start = time.perf_counter()  # after the imports, which take time in a new process
    last: Step | None = None
    steps = 0
    first: tuple[float, float] | None = None  # time after the first step, and the part done then

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
    """Set the number of torch's threads. The last bits of sums depend on it, because threads share a sum."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

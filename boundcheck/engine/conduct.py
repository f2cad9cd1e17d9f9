"""Run an experiment in slices. Each slice is stored before the next one starts; finished runs are not repeated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boundcheck import __version__
from boundcheck.atomic_write import Results
from boundcheck.engine.checkpoints import Checkpoint, Store
from boundcheck.engine.experiment import Experiment, Outcome, Settings, Task
from boundcheck.engine.slices import Slice, StoppedError, advance
from boundcheck.engine.workers import Workers
from boundcheck.folder_lock import interrupts_held
from boundcheck.progress import Progress, duration, no_progress

SECONDS = 15.0  # between two checkpoints of a run
TRIAL = 5.0  # seconds of the slice from which the total time is estimated
MANY = 20  # with at least so many runs, time a second one if the first may have spent its time on loading

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Conducted:
    """The outcome, the total seconds of all runs, the number of runs, and how many were finished before this call."""

    outcome: Outcome
    seconds: float
    runs: int
    from_before: int


def conduct(
    experiment: Experiment,
    settings: Settings,
    out: Path | Results,
    workers: Workers,
    *,
    say: Say = lambda text: None,
    bar: Progress = no_progress,
    seconds: float | None = None,
) -> Conducted:
    """Run all tasks of the experiment and return its report.

    `say` is called with an estimate of the time, and `bar` with the progress.
    """
    experiment.ready(settings)
    tasks = list(experiment.tasks(settings))
    with workers, Store(out, experiment, settings) as store:
        work = _Queue(experiment, tasks, store, workers, bar, SECONDS if seconds is None else seconds)
        from_before = len(tasks) - len(work.waiting)
        work.run_all(say)
        stored = {task.key: store.result(task.key) for task in tasks}
    results = {key: checkpoint.content for key, checkpoint in stored.items() if checkpoint is not None}
    total = sum(checkpoint.seconds for checkpoint in stored.values() if checkpoint is not None)
    return Conducted(experiment.report(settings, results), total, len(tasks), from_before)


class _Queue:
    """The unfinished tasks of an experiment: `waiting`, and `running` on a worker."""

    def __init__(
        self,
        experiment: Experiment,
        tasks: Sequence[Task],
        store: Store,
        workers: Workers,
        bar: Progress,
        seconds: float,
    ) -> None:
        self.experiment, self.store, self.workers, self.bar, self.seconds = experiment, store, workers, bar, seconds
        self.costs = {task.key: task.cost for task in tasks}
        self.total_cost = sum(self.costs.values())
        # read all results now, so that a damaged file is reported at once
        missing = [task for task in tasks if store.result(task.key) is None]
        self.so_far = {task.key: store.state(task.key) or Checkpoint(None, 0.0, 0.0) for task in missing}
        self.waiting = deque(missing)
        self.running: dict[Any, Task] = {}

    def run_all(self, say: Say) -> None:
        if not self.waiting:
            say("all runs were finished before")
            return
        self.report("")
        self.measure(say)
        while self.waiting or self.running:
            while self.waiting and len(self.running) < self.workers.count:
                self.start(self.waiting.popleft(), self.seconds)
            self.collect()

    def measure(self, say: Say) -> None:
        """Run and store a first slice of the cheapest task, and say how long all tasks will take."""
        first, before, piece = self.trial()
        if piece.finished and piece.pace is None and len(self.waiting) >= MANY:
            first, before, piece = self.trial()
        gained = (piece.done - before) * first.cost
        if gained > 0 and self.waiting:
            remaining = sum(task.cost * (1 - self.so_far[task.key].done) for task in self.waiting)
            seconds_per_cost = piece.seconds / gained if piece.pace is None else piece.pace / first.cost
            guess = seconds_per_cost * remaining / min(self.workers.count, len(self.waiting))
            part = "all" if piece.finished else f"{100 * (piece.done - before):.0f} %"
            how = f"estimated from {part} of {first.key}, which took {piece.seconds:.1f} s"
            say(f"{self.experiment.name}: about {duration(guess)} {self.workers.place} ({how})")

    def trial(self) -> tuple[Task, float, Slice]:
        """Run a slice of the cheapest waiting task; also returns the task and the part that was done before."""
        first = min(self.waiting, key=lambda task: task.cost)
        before = self.so_far[first.key].done
        self.waiting.remove(first)
        self.start(first, TRIAL, 2)  # the first step may load data, the second shows how long a step takes
        return first, before, self.collect()

    def start(self, task: Task, seconds: float, least: int = 1) -> None:
        self.report(task.key)
        state = self.so_far[task.key].content
        try:
            call = self.workers.submit(advance, self.experiment.module, task, state, seconds, __version__, least)
        except StoppedError as stopped:
            self.keep(task, stopped.last)
            raise
        self.running[call] = task

    def collect(self) -> Slice:
        """Store all finished slices, and return the last one."""
        for call in self.workers.finished(self.running):
            task = self.running.pop(call)
            latest: Slice = self.workers.result(call)
            self.keep(task, latest)
            if not latest.finished:
                self.waiting.appendleft(task)
            self.report(task.key)
        return latest

    def keep(self, task: Task, piece: Slice) -> None:
        checkpoint = Checkpoint(piece.content, piece.done, self.so_far[task.key].seconds + piece.seconds)
        with interrupts_held():  # otherwise the result would be lost
            if piece.finished:
                self.store.keep_result(task.key, checkpoint)
                del self.so_far[task.key]
            else:
                self.store.keep_state(task.key, checkpoint)
                self.so_far[task.key] = checkpoint

    def report(self, description: str) -> None:
        remaining = sum(self.costs[key] * (1 - checkpoint.done) for key, checkpoint in self.so_far.items())
        self.bar(description, self.total_cost - remaining, self.total_cost)

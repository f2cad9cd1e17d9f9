"""Progress: the callbacks that hear of it, loops that report to them, and how long the rest takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Progress = Callable[[str, float, float], None]  # what is being done, how much of it is done, and of how much
Item = TypeVar("Item")

OFTEN = 0.05  # seconds between two reports of a loop
SOON = 1.0  # seconds after which the rest of a stage is estimated


def no_progress(what: str, done: float, of: float) -> None:
    """A callback that ignores progress."""


_listener: ContextVar[Progress] = ContextVar("listener", default=no_progress)


@contextmanager
def reporting_to(progress: Progress | None) -> Iterator[None]:
    """While this context lasts, loops over `counted` report to this callback; None changes nothing."""
    if progress is None:
        yield
        return
    token = _listener.set(progress)
    try:
        yield
    finally:
        _listener.reset(token)


def counted(items: Iterable[Item], what: str, total: int | None = None, power: int = 1) -> Iterator[Item]:
    """The same items; the callback of `reporting_to` hears how many of them are done.

    Parameters
    ----------
    items : iterable
        What a loop goes through.
    what : str
        What the loop does.
    total : int, optional
        How many items there are; their number by default.
    power : int
        The work up to item i grows as the i-th number to this power: 2 where later items take longer.

    Returns
    -------
    iterator
        Over the items.

    Examples
    --------
    >>> from boundcheck.progress import counted, reporting_to
    >>> with reporting_to(lambda what, done, of: print(what, done, of)):
    ...     total = sum(counted([1, 2, 3], "adding"))
    adding 0 3
    """
    listener = _listener.get()
    if total is None:
        if not isinstance(items, Collection):
            items = list(items)
        total = len(items)
    if listener is no_progress or total < 2:
        yield from items
        return
    last = -float("inf")
    for done, item in enumerate(items):
        now = time.perf_counter()
        if now - last >= OFTEN:
            listener(what, done**power, total**power)
            last = now
        yield item


@dataclass(eq=False)
class StageClock:
    """How long the present stage of the work takes, from how long its first part took.

    A stage is a series of reports with the same total, whose description is the same up to the first colon.
    """

    now: Callable[[], float] = time.perf_counter
    stage: tuple[str, float] = ("", 0.0)
    began: float = 0.0
    first: float = 0.0  # what was done when it began
    latest: float = 0.0

    def left(self, what: str, done: float, of: float) -> float | None:
        """The seconds that the stage still takes; None if that cannot be said yet."""
        stage, now = (what.partition(":")[0], of), self.now()
        if stage != self.stage or done < self.latest:
            self.stage, self.began, self.first = stage, now, done
        self.latest = done
        if of <= 1 or done <= self.first or self.elapsed < SOON:
            return None
        return self.elapsed * (of - done) / (done - self.first)

    @property
    def elapsed(self) -> float:
        """The seconds since the stage began."""
        return self.now() - self.began


def duration(seconds: float) -> str:
    """A time in words, to one or two digits: "40 s", "7 min", "3.5 h", "2 days"."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            number = seconds / length
            return f"{number:.1f} {unit}" if number < 4 and unit != "min" else f"{number:.0f} {unit}"
    return f"{max(1, seconds):.0f} s"


def doing(what: str) -> None:
    """Tell the callback of `reporting_to` what is being done, where it is not known how much there is."""
    _listener.get()(what, 0, 1)

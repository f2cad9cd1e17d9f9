"""Progress callbacks, loops that report to them, and an estimate of the remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Progress = Callable[[str, float, float], None]  # a description, the amount that is done, and the total amount
Item = TypeVar("Item")

OFTEN = 0.05  # seconds between two reports of a loop
SOON = 1.0  # seconds of a stage before its remaining time is estimated


def no_progress(what: str, done: float, of: float) -> None:
    """Ignore progress."""


_listener: ContextVar[Progress] = ContextVar("listener", default=no_progress)


@contextmanager
def reporting_to(progress: Progress | None) -> Iterator[None]:
    """Within this context, loops over `counted` report to the callback; None changes nothing."""
    if progress is None:
        yield
        return
    token = _listener.set(progress)
    try:
        yield
    finally:
        _listener.reset(token)


def counted(items: Iterable[Item], what: str, total: int | None = None, power: int = 1) -> Iterator[Item]:
    """Yield the items, and report the number of finished items to the callback of `reporting_to`.

    Parameters
    ----------
    items : iterable
        The items of a loop.
    what : str
        A description of the loop.
    total : int, optional
        The number of items; by default they are counted.
    power : int
        The work up to item i is proportional to i to this power; use 2 if later items take longer.

    Returns
    -------
    iterator
        An iterator over the items.

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
    """An estimate of the remaining time of the current stage, from the time of its first part.

    A stage is a series of reports with the same total and the same description up to the first colon.
    """

    now: Callable[[], float] = time.perf_counter
    stage: tuple[str, float] = ("", 0.0)
    began: float = 0.0
    first: float = 0.0  # the amount that was done when the stage began
    latest: float = 0.0

    def left(self, what: str, done: float, of: float) -> float | None:
        """Return the remaining seconds of the stage; None if it is too early for an estimate."""
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
    """Return a time as text with one or two digits: "40 s", "7 min", "3.5 h", "2 days"."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            number = seconds / length
            return f"{number:.1f} {unit}" if number < 4 and unit != "min" else f"{number:.0f} {unit}"
    return f"{max(1, seconds):.0f} s"


def doing(what: str) -> None:
    """Report work of an unknown amount to the callback of `reporting_to`."""
    _listener.get()(what, 0, 1)

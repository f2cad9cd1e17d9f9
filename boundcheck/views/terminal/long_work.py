"""Messages about long work: an estimate of the time, regular messages, and a refusal of work that takes days."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from boundcheck.errors import InputError
from boundcheck.progress import StageClock, duration

LONG = 10.0  # seconds; a stage that takes longer is announced
SIGN_OF_LIFE = 30.0  # seconds between two lines if there is no bar
HOPELESS = 86400.0  # seconds; a stage that takes longer is refused
EARLY = 300.0  # a stage may be refused only in its first so many seconds


@dataclass(eq=False)
class LongWork:
    """A listener to progress that says how long a stage takes.

    Parameters
    ----------
    say : callable (str) -> None
        Called with a line for the user.
    bar : bool
        Whether a bar shows the progress; if not, lines are written from time to time.
    shorter : callable (float) -> str
        Returns advice for work that would take so many seconds.
    now : callable () -> float
        The clock.
    """

    say: Callable[[str], None]
    bar: bool
    shorter: Callable[[float], str]
    now: Callable[[], float] = time.perf_counter
    announced: set[tuple[str, float]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.clock, self.last_line = StageClock(self.now), self.now()

    def hear(self, what: str, done: float, of: float) -> float | None:
        """Take a report of progress; returns the remaining seconds of this stage, or None if not known."""
        left = self.clock.left(what, done, of)
        total = None if left is None else self.clock.elapsed + left
        if total is not None and total > HOPELESS and self.clock.elapsed < EARLY:
            raise InputError(f"{what}: this would take about {duration(total)}; {self.shorter(total)}")
        if total is not None and total > LONG and self.clock.stage not in self.announced:
            self.announced.add(self.clock.stage)
            self._line(f"{self.clock.stage[0]}: about {duration(total)}")
        elif not self.bar and self.now() - self.last_line > SIGN_OF_LIFE:
            self._line(what + ("" if left is None else f": about {duration(left)} left"))
        return left

    def _line(self, text: str) -> None:
        self.last_line = self.now()
        self.say(text)

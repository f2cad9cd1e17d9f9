"""What every view in the terminal shares: the screen, progress and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from boundcheck.number_text import number as number
from boundcheck.progress import Progress, duration, reporting_to
from boundcheck.views.terminal.long_work import LongWork


class Screen(Console):
    """A console that raises on a closed pipe; the command line handles it."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def progress(
    quiet: bool,
    *,
    time_left: bool = False,
    shorter: Callable[[float], str] = lambda seconds: "make the problem smaller",
) -> Iterator[Progress]:
    """A bar on stderr that says what is being done and how long it still takes; lines where there is no terminal.

    Parameters
    ----------
    quiet : bool
        Show nothing. Work that would take days is refused all the same.
    time_left : bool
        Whether all reports are of one piece of work, of which the whole time is known.
    shorter : callable (float) -> str
        What to change about work that takes so many seconds, more than a day.

    Returns
    -------
    callable (what, done, of) -> None
        The function to report to.
    """
    console = Console(stderr=True, highlight=False)
    columns: list[ProgressColumn] = [TextColumn("{task.description:20s}"), BarColumn(20), TimeElapsedColumn()]
    columns += [TextColumn("left:"), TimeRemainingColumn()] if time_left else [TextColumn("{task.fields[left]}")]
    with Bar(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("", total=None, left="")

        def say(line: str) -> None:
            if not quiet:
                console.print(f"boundcheck: {line}", soft_wrap=True, markup=False)

        work = LongWork(say, console.is_terminal, shorter)

        def show(description: str, done: float, total: float) -> None:
            known = time_left or total > 1  # for a single piece the time left is not known
            left = None if time_left else work.hear(description, done, total)
            remaining = "" if left is None else f"about {duration(left)} left"
            bar.update(task, description=description, completed=done, total=total if known else None, left=remaining)

        with reporting_to(None if time_left else show):
            yield show

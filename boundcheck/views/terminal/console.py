"""Shared parts of the views in the terminal: the screen, progress and numbers."""

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
    """A console that raises BrokenPipeError on a closed pipe, which the command line handles."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def progress(
    quiet: bool,
    *,
    time_left: bool = False,
    shorter: Callable[[float], str] = lambda seconds: "make the problem smaller",
) -> Iterator[Progress]:
    """Show progress and the remaining time on stderr, as a bar on a terminal and else as lines.

    Parameters
    ----------
    quiet : bool
        Whether to show nothing. Work that would take days is still refused.
    time_left : bool
        Whether all reports are about one piece of work with a known total.
    shorter : callable (float) -> str
        Returns advice for work that would take so many seconds, more than a day.

    Returns
    -------
    callable (what, done, of) -> None
        The progress callback.
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
            known = time_left or total > 1  # for a single piece, the remaining time is not known
            left = None if time_left else work.hear(description, done, total)
            remaining = "" if left is None else f"about {duration(left)} left"
            bar.update(task, description=description, completed=done, total=total if known else None, left=remaining)

        with reporting_to(None if time_left else show):
            yield show

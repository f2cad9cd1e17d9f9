"""What every view in the terminal shares: the screen, progress, numbers, and what a side is worth in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from boundcheck.number_text import number as number
from boundcheck.progress import Progress
from boundcheck.side import Side

RELATION = {
    Side.EXACT: "exact",
    Side.UPPER: "at most",
    Side.HIGH_PROBABILITY: "at most, prob.",
    Side.LOWER: "at least",
}
WORTH = {
    Side.EXACT: "proved",
    Side.UPPER: "proved",
    Side.HIGH_PROBABILITY: "with high probability",
    Side.LOWER: "no proof",
}


class Screen(Console):
    """A console that raises on a closed pipe; the command line handles it."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def progress(quiet: bool, *, time_left: bool = False) -> Iterator[Progress]:
    """A bar on stderr that says what is being done; nothing if `quiet`, or where there is no terminal."""
    console = Console(stderr=True)
    columns: list[ProgressColumn] = [TextColumn("{task.description:20s}"), BarColumn(), TimeElapsedColumn()]
    if time_left:
        columns += [TextColumn("left:"), TimeRemainingColumn()]
    with Bar(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(description: str, done: float, total: float) -> None:
            known = time_left or total > 1  # for a single piece the time left is not known
            bar.update(task, description=description, completed=done, total=total if known else None)

        yield show

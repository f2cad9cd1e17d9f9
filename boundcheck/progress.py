"""The signature of progress callbacks."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float, float], None]  # what is being done, how much of it is done, and of how much


def no_progress(what: str, done: float, of: float) -> None:
    """A callback that ignores progress."""

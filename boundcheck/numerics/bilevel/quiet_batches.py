"""PyTorch's warnings about operations that are slow in a batch: ours are not the user's to act on, so they are off.

PyTorch has one setting for the whole process, and writes some of these warnings past Python's, thousands in a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

import torch


@dataclass
class _Running:
    """How many calls of ours are under way, on all threads: the last one to end turns the warnings on again."""

    count: int = 0
    lock: Lock = field(default_factory=Lock)

    def add(self, number: int) -> None:
        with self.lock:
            self.count += number
            switch = getattr(torch._C._functorch, "_set_vmap_fallback_warning_enabled", None)
            if switch is not None and self.count == (1 if number > 0 else 0):
                switch(self.count == 0)


_running = _Running()


@contextmanager
def quiet_batches() -> Iterator[None]:
    """Without warnings about slow batches inside; afterwards PyTorch gives them again, also after an error."""
    _running.add(1)
    try:
        yield
    finally:
        _running.add(-1)

"""A context without PyTorch's warnings about operations that are slow in a batch, about which the user can do nothing.

PyTorch has one setting for the whole process. It writes some of these warnings directly, not as Python warnings, and
there may be thousands in a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

import torch


@dataclass
class _Running:
    """The number of open contexts in all threads. When the last one closes, the warnings are turned on again."""

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
    """Turn off warnings about slow batches inside this context, and turn them on again afterwards, also on errors."""
    _running.add(1)
    try:
        yield
    finally:
        _running.add(-1)

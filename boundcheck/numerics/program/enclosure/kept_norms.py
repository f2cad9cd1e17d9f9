"""What is computed of derivatives while constants are proved, and is the same on several balls: computed once.

A result is used again only where every number is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

MOST_NUMBERS = 8_000_000  # in all that is kept
Numbers = tuple[Tensor | float | None, ...]
Result = TypeVar("Result")


@dataclass(eq=False)
class _Kept:
    """Results, with the numbers that they follow from; those that were used last are at the end."""

    results: dict[tuple[object, ...], tuple[Numbers, Any]] = field(default_factory=dict)

    def result(self, name: str, numbers: Numbers, compute: Callable[[], Result]) -> Result:
        key = (name, *map(_outline, numbers))
        known = self.results.pop(key, None)
        if known is None or not all(map(_same, known[0], numbers)):
            known = numbers, compute()
            self._make_room(numbers)
        self.results[key] = known
        value: Result = known[1]
        return value

    def _make_room(self, numbers: Numbers) -> None:
        """Drop what was used longest ago, while there are too many numbers."""
        while self.results and _count([numbers, *(known for known, _ in self.results.values())]) > MOST_NUMBERS:
            del self.results[next(iter(self.results))]


def _count(kept: Iterable[Numbers]) -> int:
    """How many numbers there are, those of a tensor that is in several counted once."""
    tensors = {id(x): x for numbers in kept for x in numbers if isinstance(x, Tensor)}
    return sum(x.numel() for x in tensors.values())


_KEPT: ContextVar[_Kept | None] = ContextVar("kept results", default=None)


@contextmanager
def norms_kept() -> Iterator[None]:
    """Keep results until the end of the block, or of one that is around it."""
    if _KEPT.get() is not None:
        yield
        return
    token = _KEPT.set(_Kept())
    try:
        yield
    finally:
        _KEPT.reset(token)


def kept(name: str, numbers: Numbers, compute: Callable[[], Result]) -> Result:
    """What `compute` returns, or where results are kept what it returned under that name for the same numbers."""
    memory = _KEPT.get()
    return compute() if memory is None else memory.result(name, numbers, compute)


def _outline(x: Tensor | float | None) -> object:
    """What mostly differs where numbers do."""
    return (x.shape, float(x.sum())) if isinstance(x, Tensor) else x


def _same(x: Tensor | float | None, y: Tensor | float | None) -> bool:
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return x is y or torch.equal(x, y)
    return x is y or x == y

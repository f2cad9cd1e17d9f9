"""What a storage holds while a function writes into it: for every place in it, an entry of one of the recorded values.

A write through a view changes the places of that view, and a read through any view looks at the places of its own. So
it does not matter which views there are, when they were made, or which of them is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

Source = TypeVar("Source")  # a recorded value, or a tensor of numbers


def places(x: Tensor) -> Tensor | None:
    """For every entry of x its place in the storage, counted in entries; None if two entries share a place."""
    size = x.untyped_storage().nbytes() // x.element_size()
    where = torch.arange(size).as_strided(x.shape, x.stride(), x.storage_offset())
    return where if len(set(where.reshape(-1).tolist())) == where.numel() else None


@dataclass(frozen=True)
class MemoryReading(Generic[Source]):
    """Entries of some sources: `index` counts through all of them, one after the other."""

    sources: tuple[Source, ...]
    index: Tensor
    in_order: bool  # is it all of one source, in its order?


@dataclass(eq=False)
class Memory(Generic[Source]):
    """A storage of entries of one type. `where` counts through all sources, and is −1 where nothing is known."""

    dtype: torch.dtype
    where: Tensor
    sources: list[Source] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def of(cls, x: Tensor) -> Memory[Source]:
        """The storage of x, before anything is known of it."""
        size = x.untyped_storage().nbytes() // x.element_size()
        return cls(x.dtype, torch.full((size,), -1))

    def write(self, places: Tensor, source: Source) -> None:
        """The entries of a source are at these places now."""
        start = self.starts[-1]
        self.where[places.reshape(-1)] = torch.arange(start, start + places.numel())
        self.sources.append(source)
        self.starts.append(start + places.numel())

    def read(self, places: Tensor) -> MemoryReading[Source] | None:
        """What is at these places; None if that is not known."""
        index = self.where[places].contiguous()
        if bool((index < 0).any()):
            return None
        ends = torch.tensor(self.starts[1:])
        source_of = torch.bucketize(index, ends, right=True)
        used = sorted(set(source_of.reshape(-1).tolist()))
        moved, total = index.clone(), 0
        for i in used:
            moved = torch.where(source_of == i, index - self.starts[i] + total, moved)
            total += self.starts[i + 1] - self.starts[i]
        in_order = len(used) == 1 and torch.equal(moved.reshape(-1), torch.arange(total))
        return MemoryReading(tuple(self.sources[i] for i in used), moved, in_order)

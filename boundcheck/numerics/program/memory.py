"""The contents of a storage while a function writes into it: each place holds an entry of a recorded value.

A write through a view changes the places of that view, and a read through a view looks at its own places. So the result
does not depend on how many views exist, when they were created, or which of them is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

Source = TypeVar("Source")  # a reference to a recorded value, or a tensor of numbers


def places(x: Tensor) -> Tensor | None:
    """Return the place of every entry of x in its storage, in entries; None if two entries share a place."""
    size = x.untyped_storage().nbytes() // x.element_size()
    where = torch.arange(size).as_strided(x.shape, x.stride(), x.storage_offset())
    return where if len(set(where.reshape(-1).tolist())) == where.numel() else None


@dataclass(frozen=True)
class MemoryReading(Generic[Source]):
    """Entries of some sources. `index` holds positions in the concatenation of all sources."""

    sources: tuple[Source, ...]
    index: Tensor
    in_order: bool  # whether the entries are all entries of one source, in its order


@dataclass(eq=False)
class Memory(Generic[Source]):
    """The contents of a storage with entries of one dtype.

    For every place, `where` is a position in the concatenation of all sources, or −1 if the contents are unknown.
    """

    dtype: torch.dtype
    where: Tensor
    sources: list[Source] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def of(cls, x: Tensor) -> Memory[Source]:
        """Return the storage of x with unknown contents."""
        size = x.untyped_storage().nbytes() // x.element_size()
        return cls(x.dtype, torch.full((size,), -1))

    def write(self, places: Tensor, source: Source) -> None:
        """Put the entries of a source at these places."""
        start = self.starts[-1]
        self.where[places.reshape(-1)] = torch.arange(start, start + places.numel())
        self.sources.append(source)
        self.starts.append(start + places.numel())

    def read(self, places: Tensor) -> MemoryReading[Source] | None:
        """Return the contents of these places; None if some are unknown."""
        index = self.where[places].contiguous()
        if bool((index < 0).any()):
            return None
        ends = torch.tensor(self.starts[1:])
        source_of = torch.bucketize(index, ends, right=True)
        used = sorted(set(source_of.reshape(-1).tolist()))
        position, total = index.clone(), 0
        for i in used:
            position = torch.where(source_of == i, index - self.starts[i] + total, position)
            total += self.starts[i + 1] - self.starts[i]
        in_order = len(used) == 1 and torch.equal(position.reshape(-1), torch.arange(total))
        return MemoryReading(tuple(self.sources[i] for i in used), position, in_order)

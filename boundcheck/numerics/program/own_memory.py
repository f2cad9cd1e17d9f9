"""The memory that a function took itself, which it may write into, and what it wrote there."""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.numerics.program.memory import Memory
from boundcheck.numerics.program.recorded_program import Ref
from boundcheck.numerics.program.tensor_places import FirstValue, key_of, storage_of


class OwnMemory:
    """What is known of every storage, by its address.

    Attributes
    ----------
    taken : dict
        Storages that the function took for numbers.
    first : dict
        The values that other storages were taken for.
    written : dict
        What storages hold that were written into.
    """

    def __init__(self) -> None:
        self.taken: dict[int, object] = {}
        self.first: dict[int, FirstValue] = {}
        self.written: dict[int, Memory[Ref | Tensor]] = {}
        self._sealed: set[int] = set()

    def seal(self, x: Tensor) -> None:
        """The memory of x is not to be written into."""
        storage = storage_of(x)
        if storage is not None:
            self._sealed.add(storage._cdata)

    def of(self, x: Tensor) -> Memory[Ref | Tensor] | str:
        """What the storage of x holds now; or why it is not to be written into."""
        cdata = key_of(x)[0]
        if cdata in self._sealed:
            return "into w, λ, or what is also cut off from its derivative"
        memory = self.written.get(cdata)
        if memory is None:
            memory = Memory.of(x)
            if cdata in self.first:
                value = self.first[cdata]
                if (at := value.places(x)) is not None:
                    memory.write(at, value.ref)
            elif cdata in self.taken:
                every = x.detach().as_strided((len(memory.where),), (1,), 0).clone()
                memory.write(torch.arange(len(memory.where)), every)
            else:
                return "into memory that the function did not take itself"
        if memory.dtype != x.dtype:
            return f"into memory of {memory.dtype}"
        return memory

"""Memory that a function allocated itself and may write into, and its contents."""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.numerics.program.memory import Memory
from boundcheck.numerics.program.recorded_program import Ref
from boundcheck.numerics.program.tensor_places import FirstValue, key_of, storage_of


class OwnMemory:
    """Storages of a function, by address.

    Attributes
    ----------
    taken : dict
        Storages that the function allocated for numbers.
    first : dict
        The values for which other storages were allocated.
    written : dict
        The contents of storages that the function wrote into.
    """

    def __init__(self) -> None:
        self.taken: dict[int, object] = {}
        self.first: dict[int, FirstValue] = {}
        self.written: dict[int, Memory[Ref | Tensor]] = {}
        self._sealed: set[int] = set()

    def seal(self, x: Tensor) -> None:
        """Forbid writes into the memory of x."""
        storage = storage_of(x)
        if storage is not None:
            self._sealed.add(storage._cdata)

    def of(self, x: Tensor) -> Memory[Ref | Tensor] | str:
        """Return the contents of the storage of x, or the reason why the function must not write into it."""
        cdata = key_of(x)[0]
        if cdata in self._sealed:
            return "into w, λ, or memory that it shares with a result of detach() or .data"
        memory = self.written.get(cdata)
        if memory is None:
            memory = Memory.of(x)
            if cdata in self.first:
                value = self.first[cdata]
                if (value_places := value.places(x)) is not None:
                    memory.write(value_places, value.ref)
            elif cdata in self.taken:
                entries = x.detach().as_strided((len(memory.where),), (1,), 0).clone()
                memory.write(torch.arange(len(memory.where)), entries)
            else:
                return "into memory that the function did not allocate itself"
        if memory.dtype != x.dtype:
            return f"into memory of {memory.dtype}"
        return memory

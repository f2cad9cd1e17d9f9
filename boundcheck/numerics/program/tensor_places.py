"""The location of a tensor: its storage, its places there, and the value that the storage was allocated for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.memory import places
from boundcheck.numerics.program.recorded_program import Ref

Key = tuple[Any, Any, tuple[int, ...], tuple[int, ...], torch.dtype]  # storage, offset, shape, stride, dtype


@dataclass(frozen=True, eq=False)
class FirstValue:
    """The value that a storage was allocated for, and its location in the storage."""

    key: Key
    ref: Ref

    def places(self, x: Tensor) -> Tensor | None:
        """Return the places of the value, from any tensor x in the storage.

        None if two entries share a place or x has another dtype.
        """
        _, offset, shape, stride, dtype = self.key
        return places(x.detach().as_strided(shape, stride, offset)) if x.dtype == dtype else None


def share_a_place(one: Tensor, two: Tensor | None) -> bool:
    """Return True if two sets of places overlap, or if the second is None (its tensor overlaps itself)."""
    return two is None or bool(torch.isin(one, two).any())


def storage_of(x: Tensor) -> Any:
    """Return the storage of a tensor; None if it has no storage."""
    try:
        return x.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse tensors have no storage
        return None


def key_of(x: Tensor) -> Key:
    """Return the storage of a tensor, its location in the storage, and its dtype."""
    return storage_of(x)._cdata, x.storage_offset(), tuple(x.shape), x.stride(), x.dtype

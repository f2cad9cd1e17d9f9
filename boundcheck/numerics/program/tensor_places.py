"""Where a tensor lies: its storage, its places in it, and the value that its memory was taken for."""

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
    """The value that memory was taken for, and how it lies there."""

    key: Key
    ref: Ref

    def places(self, x: Tensor) -> Tensor | None:
        """Its places, from any tensor in that memory; None where entries share one, or x is of another dtype."""
        _, offset, shape, stride, dtype = self.key
        return places(x.detach().as_strided(shape, stride, offset)) if x.dtype == dtype else None


def share_a_place(one: Tensor, two: Tensor | None) -> bool:
    """Do two tensors share a place? One that shares places with itself counts as one that does."""
    return two is None or bool(torch.isin(one, two).any())


def storage_of(x: Tensor) -> Any:
    """The storage of a tensor; None where it has none."""
    try:
        return x.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return None


def key_of(x: Tensor) -> Key:
    """Where a tensor lies, in which storage, and its dtype."""
    return storage_of(x)._cdata, x.storage_offset(), tuple(x.shape), x.stride(), x.dtype

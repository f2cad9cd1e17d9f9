"""`as_strided` written with an index, so that it is correct under `vmap` and forward mode.

PyTorch's own `as_strided` reads the memory of the whole batch there: in torch 2.13, its values under `vmap` and its
second derivatives come from wrong entries.

The entries are a copy, where PyTorch returns a view. A function that writes into the view, or into its tensor
afterwards, computes something else with a copy, so it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.errors import InputError

ASK = "write it with indices, x[...], or x.unfold(...)"


def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Return the entries at positions Σ i·stride of a contiguous tensor. For data, call PyTorch."""
    last = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    fits = storage_offset is None and input.is_contiguous() and last < input.numel()
    if not fits and _is_data(input):
        return torch.as_strided(input, size, stride, storage_offset)
    if storage_offset is not None:
        raise InputError(
            f"as_strided with storage_offset = {storage_offset} counts from the beginning of the memory, where other "
            f"parameters may be; {ASK}"
        )
    if not input.is_contiguous():
        raise InputError(f"as_strided of a tensor that is not contiguous; {ASK}, or call .contiguous() first")
    places = torch.zeros(tuple(size), dtype=torch.int64, device=input.device)
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = length
        places = places + (torch.arange(length, device=input.device) * step).reshape(shape)
    if places.numel() and last >= input.numel():
        raise InputError(
            f"as_strided reads entry {last} of a tensor of {input.numel()}, which is outside the tensor; {ASK}"
        )
    return input.reshape(-1)[places]


@dataclass(frozen=True, eq=False)
class Copy:
    """The tensors of a call of `as_strided`, and how often each had been written into."""

    input: Tensor
    result: Tensor
    versions: tuple[int | None, int | None]

    @classmethod
    def of(cls, input: Tensor, result: Tensor) -> Copy:
        """Remember a call."""
        return cls(input, result, (_version(input), _version(result)))

    def refuse_writes(self) -> None:
        """Refuse a function that wrote into one of the tensors since."""
        if (_version(self.input), _version(self.result)) != self.versions:
            raise InputError(f"a write in place into a result of as_strided, or into its tensor afterwards; {ASK}")


def _version(x: Tensor) -> int | None:
    return None if x.is_inference() else x._version


def _is_data(x: Tensor) -> bool:
    """Return True if the tensor is neither batched nor differentiated."""
    if x.requires_grad or torch._C._functorch.is_functorch_wrapped_tensor(x):
        return False
    return torch.autograd.forward_ad.unpack_dual(x).tangent is None  # type: ignore[no-untyped-call]


STRIDES: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.as_strided: as_strided,
    Tensor.as_strided: as_strided,
    torch.as_strided_copy: as_strided,
}
VIEWS = frozenset((torch.as_strided, Tensor.as_strided))  # of PyTorch; the other is a copy there too

"""`as_strided` written with an index, so that it is correct under `vmap` and forward mode.

PyTorch's own `as_strided` reads the memory of the whole batch there: in torch 2.13, its values under `vmap` and its
second derivatives come from wrong entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

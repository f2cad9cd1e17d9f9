"""Reasons why an operation cannot be recorded, whatever its numbers are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.operations import facts
from boundcheck.numerics.program.torch_modules import Plugged

PLAIN = (Tensor, torch.nn.Parameter, Plugged)  # types of tensors that do not redefine operations


def why_unusable(func: Any, tensors: list[Tensor], *, writes: bool = False) -> str:
    """Return the reason why an operation on these tensors cannot be recorded; empty if it can be.

    `writes=True` permits an operation that writes in place.
    """
    if not facts(func).is_aten:
        return f"{func} is not an operation of PyTorch's own"
    if facts(func).is_mutable and not writes:
        return f"{func} writes in place"
    if not torch.is_grad_enabled():
        return f"{func} under no_grad, or in an autograd.Function: its derivative is not that of the operation"
    for x in tensors:
        if type(x) not in PLAIN or x.is_complex() or x.is_neg():
            return f"{func}: a tensor of type {type(x).__name__}, {x.dtype}"
    return ""

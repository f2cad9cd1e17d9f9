"""In-place operations, each with the function that returns the numbers that the operation writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# x.name_(…) writes the result of x.name(…) into x, in the precision of x
WRITES = frozenset((
    "abs", "add", "addcdiv", "addcmul", "addmm", "addmv", "asinh", "atan", "baddbmm", "celu", "clamp", "clamp_max",
    "clamp_min", "cos", "cosh", "div", "elu", "erf", "erfc", "exp", "exp2", "expm1", "hardtanh", "index_add",
    "index_put", "leaky_relu", "lerp",
    "log", "log10", "log1p", "log2", "masked_fill", "mul", "neg", "pow", "reciprocal", "relu", "rsqrt", "scatter_add",
    "sigmoid", "silu", "sin", "sinh", "sqrt", "square", "sub", "tanh", "tril", "triu",
))  # fmt: skip


def _copy(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return source.expand(x.shape)


def _fill(x: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.expand(x.shape)
    return torch.full(x.shape, value, dtype=x.dtype, device=x.device)


def _zero(x: Tensor) -> Tensor:
    return torch.zeros(x.shape, dtype=x.dtype, device=x.device)


COPIES: dict[str, Callable[..., Tensor]] = {"copy_": _copy, "fill_": _fill, "zero_": _zero}


def out_of_place(func: Any, name: str) -> Callable[..., Tensor] | None:
    """Return the function whose result the operation writes into its first argument; None if it is unknown."""
    arguments = func._schema.arguments
    written = [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    if func.namespace != "aten" or written != ["self"] or arguments[0].name != "self":
        return None
    if name in COPIES:
        return COPIES[name]
    stem = name.removesuffix("_")
    if stem == name or stem not in WRITES:
        return None
    packet = getattr(torch.ops.aten, stem)
    for overload in packet.overloads():
        plain: Any = getattr(packet, overload)
        if _signature(plain) == _signature(func) and not plain._schema.is_mutable:
            counterpart: Callable[..., Tensor] = plain
            return counterpart
    return None


def _signature(func: Any) -> list[tuple[str, str]]:
    """Return names and types of the arguments."""
    return [(argument.name, str(argument.type)) for argument in func._schema.arguments]


def cast(value: Tensor, x: Tensor) -> Tensor:
    """Convert a value to the precision of x, as a write into x does. The conversion is recorded as an operation."""
    same: Tensor = value if value.dtype == x.dtype else torch.ops.aten._to_copy(value, dtype=x.dtype)
    return same

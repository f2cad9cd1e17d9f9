"""Operations that write into their first argument, each with the function that returns what is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# x.name_(…) writes what x.name(…) returns into x, in the precision of x
WRITES = frozenset((
    "abs", "add", "addcdiv", "addcmul", "addmm", "addmv", "asinh", "atan", "baddbmm", "celu", "clamp", "clamp_max",
    "clamp_min", "cos", "cosh", "div", "elu", "erf", "erfc", "exp", "exp2", "expm1", "hardtanh", "index_add",
    "index_put", "leaky_relu", "lerp",
    "log", "log10", "log1p", "log2", "masked_fill", "mul", "neg", "pow", "reciprocal", "relu", "rsqrt", "scatter_add",
    "sigmoid", "silu", "sin", "sinh", "sqrt", "square", "sub", "tanh", "tril", "triu",
))  # fmt: skip


def _copied(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return source.expand(x.shape)


def _filled(x: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.expand(x.shape)
    return torch.full(x.shape, value, dtype=x.dtype, device=x.device)


def _zeroed(x: Tensor) -> Tensor:
    return torch.zeros(x.shape, dtype=x.dtype, device=x.device)


COPIES: dict[str, Callable[..., Tensor]] = {"copy_": _copied, "fill_": _filled, "zero_": _zeroed}


def out_of_place(func: Any, name: str) -> Callable[..., Tensor] | None:
    """What an operation writes into its first argument, as a function of its arguments; None if that is not known."""
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
        if _takes(plain) == _takes(func) and not plain._schema.is_mutable:
            counterpart: Callable[..., Tensor] = plain
            return counterpart
    return None


def _takes(func: Any) -> list[tuple[str, str]]:
    """Names and types of the arguments."""
    return [(argument.name, str(argument.type)) for argument in func._schema.arguments]


def cast(value: Tensor, x: Tensor) -> Tensor:
    """In the precision of x, as a write does; where that is another one, the record has the cast."""
    same: Tensor = value if value.dtype == x.dtype else torch.ops.aten._to_copy(value, dtype=x.dtype)
    return same

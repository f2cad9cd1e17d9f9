"""Detect numbers that a program computes outside PyTorch, where they cannot be followed.

Functions that take numbers out of PyTorch are refused. Two runs at different points show constants that depend on the
point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from boundcheck.numerics.program.rounding_rules.ball import Refusal

# functions that take numbers out of PyTorch
OUT = frozenset((
    "numpy", "tolist", "__array__", "__dlpack__", "to_dlpack", "data_ptr", "untyped_storage", "storage", "apply_",
    "map_",
))  # fmt: skip


class NoWayOut(TorchFunctionMode):
    """Refuses functions that take numbers out of PyTorch, and the functions named in `also`."""

    def __init__(self, refuse: Callable[[Refusal], Refusal], also: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.refuse, self.names = refuse, OUT | also

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = name_of(func)
        if name in self.names:
            raise self.refuse(leaves_torch(name))
        return func(*args, **(kwargs or {}))


def name_of(func: Any) -> str:
    """Return the name of a torch function as a function mode receives it; "data" for the attribute `Tensor.data`."""
    return "data" if getattr(func, "__self__", None) is Tensor.data else getattr(func, "__name__", "")


def leaves_torch(name: str) -> Refusal:
    """Return the refusal of a function with this name."""
    return Refusal(f"Tensor.{name} takes numbers out of PyTorch")


@dataclass(frozen=True)
class ForeignOperation:
    """One operation: its name, its number arguments, and the constant tensors that it reads."""

    name: str
    numbers: tuple[Any, ...]
    constants: tuple[Tensor, ...]


def differs(first: list[ForeignOperation], second: list[ForeignOperation]) -> str:
    """Compare runs at two points, and name the first operation that reads other numbers from outside PyTorch.

    Returns
    -------
    str
        The difference, as a message; empty if there is none.
    """
    for step, other in zip(first, second, strict=False):
        if step.name != other.name:
            return f"{step.name}: at a nearby point the program runs {other.name} instead"
        same = repr(step.numbers) == repr(other.numbers) and len(step.constants) == len(other.constants)
        if not same or not all(x is y or _equal(x, y) for x, y in zip(step.constants, other.constants, strict=True)):
            return f"{step.name}: a number depends on the point, and PyTorch did not compute it"
    return "" if len(first) == len(second) else "at a nearby point the program runs other operations"


def _equal(x: Tensor, y: Tensor) -> bool:
    if any(t.layout is not torch.strided for t in (x, y)):
        same = x.layout is y.layout and x.shape == y.shape
        return same and all(_equal(a, b) for a, b in zip(_parts(x), _parts(y), strict=True))
    if x.shape == y.shape and x.data_ptr() == y.data_ptr() and x.stride() == y.stride():
        return True
    return x.shape == y.shape and bool(((x == y) | (x.isnan() & y.isnan())).all())


def _parts(x: Tensor) -> tuple[Tensor, ...]:
    """Return the dense tensors that a sparse tensor consists of: the indices and the values of its entries."""
    if x.layout is torch.sparse_coo:
        return x._indices(), x._values()  # works whether x is coalesced or not
    if x.layout in (torch.sparse_csr, torch.sparse_bsr):
        return x.crow_indices(), x.col_indices(), x.values()
    if x.layout in (torch.sparse_csc, torch.sparse_bsc):
        return x.ccol_indices(), x.row_indices(), x.values()
    return (x.to_dense(),)

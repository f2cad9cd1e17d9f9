"""What a program computes outside of PyTorch, where nothing watches it: numbers read out, constants that are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from boundcheck.numerics.program.rounding_rules.ball import Refusal

# functions that take numbers out of PyTorch, where nothing watches them
OUT = frozenset((
    "numpy", "tolist", "__array__", "__dlpack__", "to_dlpack", "data_ptr", "untyped_storage", "storage", "apply_",
    "map_",
))  # fmt: skip


class NoWayOut(TorchFunctionMode):
    """Declines functions that take numbers out of PyTorch, and `also` functions of other names."""

    def __init__(self, refuse: Callable[[Refusal], Refusal], also: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.refuse, self.names = refuse, OUT | also

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = name_of(func)
        if name in self.names:
            raise self.refuse(leaves_torch(name))
        return func(*args, **(kwargs or {}))


def name_of(func: Any) -> str:
    """The name of a function of torch as a function mode gets it; "data" for the attribute of that name."""
    return "data" if getattr(func, "__self__", None) is Tensor.data else getattr(func, "__name__", "")


def leaves_torch(name: str) -> Refusal:
    """Why a function of that name is refused."""
    return Refusal(f"Tensor.{name} takes numbers out of PyTorch")


@dataclass(frozen=True)
class ForeignOperation:
    """One operation: its name, its numbers, and the constants that it read."""

    name: str
    numbers: tuple[Any, ...]
    constants: tuple[Tensor, ...]


def differs(first: list[ForeignOperation], second: list[ForeignOperation]) -> str:
    """Where a run at another point read other numbers that were computed outside of PyTorch; empty if nowhere."""
    for step, other in zip(first, second, strict=False):
        if step.name != other.name:
            return f"{step.name}: at a point close by the program does {other.name} instead"
        same = repr(step.numbers) == repr(other.numbers) and len(step.constants) == len(other.constants)
        if not same or not all(x is y or _equal(x, y) for x, y in zip(step.constants, other.constants, strict=True)):
            return f"{step.name}: a number depends on the point, and PyTorch did not compute it"
    return "" if len(first) == len(second) else "at a point close by the program does other operations"


def _equal(x: Tensor, y: Tensor) -> bool:
    if any(t.layout is not torch.strided for t in (x, y)):
        same = x.layout is y.layout and x.shape == y.shape
        return same and all(_equal(a, b) for a, b in zip(_parts(x), _parts(y), strict=True))
    if x.shape == y.shape and x.data_ptr() == y.data_ptr() and x.stride() == y.stride():
        return True
    return x.shape == y.shape and bool(((x == y) | (x.isnan() & y.isnan())).all())


def _parts(x: Tensor) -> tuple[Tensor, ...]:
    """The dense tensors that a sparse one consists of: where its entries are, and what they are."""
    if x.layout is torch.sparse_coo:
        return x._indices(), x._values()  # whether it is coalesced or not
    if x.layout in (torch.sparse_csr, torch.sparse_bsr):
        return x.crow_indices(), x.col_indices(), x.values()
    if x.layout in (torch.sparse_csc, torch.sparse_bsc):
        return x.ccol_indices(), x.row_indices(), x.values()
    return (x.to_dense(),)

"""A recorded program: operations, the values that they read, and which value it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from boundcheck.numerics.program.operations import leaves

CUT = "cut"  # the operation that stands for detach() and .data
MATRIX = "matrix"  # the operation that stands for the product with a matrix that PyTorch does not see


class Declined(Exception):  # noqa: N818
    """Nothing is proved of a program, for the reason given; shown to users as the reason, never raised to them."""


@dataclass(frozen=True)
class Ref:
    """The value of an operation: the `item`-th of its results."""

    node: int
    item: int = 0


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation. In `args` and `kwargs`, a `Ref` stands for every tensor that depends on w or λ."""

    name: str  # of the ATen operation, such as "mv"; "input" for w and λ
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: tuple[torch.Size, ...]  # of its results
    func: Any
    line: str  # the user's file and line; empty if there is none

    def refs(self) -> list[Ref]:
        """The computed tensors that it reads."""
        return [x for x in leaves(self.args, self.kwargs) if isinstance(x, Ref)]


@dataclass(frozen=True, eq=False)
class Program:
    """The operations in the order in which they ran; the first are the inputs w and λ, and data where it is one."""

    operations: tuple[Operation, ...]
    output: Ref
    shape: torch.Size  # of the output


W, LAM = Ref(0), Ref(1)


def depends_on_w(ref: Ref, operations: Sequence[Operation]) -> bool:
    """Does a value depend on w?"""
    visited, left = set(), [ref]
    while left:
        ref = left.pop()
        if ref == W:
            return True
        left += [x for x in operations[ref.node].refs() if x not in visited]
        visited.update(left)
    return False

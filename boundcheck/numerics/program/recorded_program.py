"""A recorded program: its operations, the values that they read, and the value that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from boundcheck.numerics.program.operations import leaves

CUT = "cut"  # name of the operation recorded for detach() and .data
MATRIX = "matrix"  # name of the operation recorded for a product with a matrix that is not a tensor


class Declined(Exception):  # noqa: N818
    """Nothing is proved about a program. The message is the reason; users see it as text, never as an exception."""


@dataclass(frozen=True)
class Ref:
    """The result number `item` of the operation number `node`."""

    node: int
    item: int = 0


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation. In `args` and `kwargs`, a `Ref` stands for every tensor that depends on w or λ."""

    name: str  # name of the ATen operation, such as "mv"; "input" for w and λ
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: tuple[torch.Size, ...]  # shapes of the results
    func: Any
    line: str  # the user's file and line; empty if there is none

    def refs(self) -> list[Ref]:
        """Return the computed tensors that the operation reads."""
        return [x for x in leaves(self.args, self.kwargs) if isinstance(x, Ref)]


@dataclass(frozen=True, eq=False)
class Program:
    """The operations in the order in which they ran. The first are the inputs: w, λ, and data if it is an input."""

    operations: tuple[Operation, ...]
    output: Ref
    shape: torch.Size  # shape of the output


W, LAM = Ref(0), Ref(1)


def depends_on_w(ref: Ref, operations: Sequence[Operation]) -> bool:
    """Return True if a value depends on w."""
    visited, pending = set(), [ref]
    while pending:
        ref = pending.pop()
        if ref == W:
            return True
        pending += [x for x in operations[ref.node].refs() if x not in visited]
        visited.update(pending)
    return False

"""Check that a function has not changed since it was recorded: compare its programs number by number.

A program contains every operation with all numbers that it reads, except w and λ. So two equal programs compute the
same values for every w and λ. The conclusion does not rest on sampled points.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.operations import leaves as leaves_of
from boundcheck.numerics.program.recorded_program import Declined, Operation, Program, Ref

MOST_NUMBERS = 50_000_000  # largest amount of data to copy


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A program with copies of its data, which reveal later writes into the data."""

    program: Program
    leaves: tuple[tuple[Any, ...], ...]  # the arguments of each operation, with copies of tensors

    @classmethod
    def of(cls, program: Program, *, sparse: bool = False) -> Snapshot:
        """Copy the data of a program. Decline data that are too large, sparse, or neither tensors nor plain values.

        With `sparse`, sparse tensors are copied too, and objects that consist of tensors, such as a sparse matrix.
        """
        numbers, leaves = 0, []
        for operation in program.operations:
            copies = []
            for x in leaves_of(operation.args, operation.kwargs):
                if isinstance(x, Tensor):
                    numbers += x.numel()
                    if (x.layout is not torch.strided and not sparse) or numbers > MOST_NUMBERS:
                        raise Declined(f"aten.{operation.name}: its data are sparse, or too large to be copied")
                    x = x.detach().clone()
                elif sparse and (parts := _parts_of(x)) is not None:
                    numbers += sum(
                        part.numel() if part.layout is torch.strided else part._nnz() for part in parts.tensors
                    )
                    x = _Parts(parts.kind, tuple(part.detach().clone() for part in parts.tensors), parts.plain)
                elif not isinstance(x, _PLAIN):
                    raise Declined(f"{operation.name}: an argument of type {type(x).__name__}")
                copies.append(x)
            leaves.append(tuple(copies))
        return cls(program, tuple(leaves))

    def is_of(self, program: Program) -> bool:
        """Return True if all operations and all numbers are the same as in another program."""
        ours = self.program
        if ours.output != program.output or len(ours.operations) != len(program.operations):
            return False
        pairs = zip(ours.operations, program.operations, self.leaves, strict=True)
        return all(_same(one, two, leaves) for one, two, leaves in pairs)


_PLAIN = (
    Ref, bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Parts:
    """The parts of an object: its tensors, and its plain numbers and strings."""

    kind: type
    tensors: tuple[Tensor, ...]
    plain: tuple[Any, ...]


def _parts_of(x: Any) -> _Parts | None:
    """Return the parts of an object that consists of tensors and plain values, such as a sparse matrix; else None."""
    if not is_dataclass(x) or isinstance(x, type | Ref):
        return None
    values = [getattr(x, part.name) for part in fields(x)]
    tensors = tuple(value for value in values if isinstance(value, Tensor))
    plain = tuple(value for value in values if not isinstance(value, Tensor))
    return _Parts(type(x), tensors, plain) if tensors and all(isinstance(value, _PLAIN) for value in plain) else None


def _same(one: Operation, two: Operation, leaves: tuple[Any, ...]) -> bool:
    if one.name != two.name or one.func is not two.func or one.shapes != two.shapes:
        return False
    others = leaves_of(two.args, two.kwargs)
    return len(leaves) == len(others) and all(_equal(x, y) for x, y in zip(leaves, others, strict=True))


def _equal(x: Any, y: Any) -> bool:
    if isinstance(x, _Parts):
        parts = _parts_of(y) if type(y) is x.kind else None
        if parts is None or len(parts.tensors) != len(x.tensors) or parts.plain != x.plain:
            return False
        return all(map(_equal, x.tensors, parts.tensors))
    if not isinstance(x, Tensor):
        return type(x) is type(y) and (x == y or (x != x and y != y))
    if not isinstance(y, Tensor) or x.dtype != y.dtype or x.shape != y.shape or x.layout is not y.layout:
        return False
    if x.layout is not torch.strided:
        ours, theirs = _strided_parts(x), _strided_parts(y)
        return ours is not None and theirs is not None and all(map(_equal, ours, theirs))
    if torch.equal(x, y):
        return True
    return x.is_floating_point() and bool(((x == y) | (x.isnan() & y.isnan())).all())


def _strided_parts(x: Tensor) -> tuple[Tensor, ...] | None:
    """Return the indices and values of a sparse tensor; None for an unsupported layout."""
    if x.layout is torch.sparse_csr:
        return x.crow_indices(), x.col_indices(), x.values()
    if x.layout is torch.sparse_csc:
        return x.ccol_indices(), x.row_indices(), x.values()
    return (x._indices(), x._values()) if x.layout is torch.sparse_coo else None

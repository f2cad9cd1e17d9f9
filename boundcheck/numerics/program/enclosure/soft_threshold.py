"""Finds sign(z)·max(|z| − t, 0) among recorded operations: the step of iterative soft thresholding, for the lasso.

The sign jumps where |z| has its kink, so each factor alone has no derivative at 0, where the product is 0. For t ≥ 0 it
is max(z − t, 0) − max(−z − t, 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY
from boundcheck.numerics.program.enclosure.elementwise import elementwise
from boundcheck.numerics.program.enclosure.linear import linear_value
from boundcheck.numerics.program.enclosure.norm_pattern import is_same
from boundcheck.numerics.program.enclosure.value import Value
from boundcheck.numerics.program.recorded_program import Operation, Program, Ref


@dataclass(frozen=True)
class SoftThreshold:
    """The tensor z and the threshold t, a recorded tensor or numbers."""

    z: Ref
    t: Any


def soft_threshold_of(program: Program, operation: Operation) -> SoftThreshold | None:
    """What a product computes, if it is such a step."""
    if operation.name != "mul" or operation.kwargs or len(operation.args) != 2:
        return None
    one, two = operation.args
    for sign, rest in ((one, two), (two, one)):
        z = _argument(program, sign, "sign", "sgn")
        inside = _positive_part(program, rest)
        if z is None or inside is None or len(inside.args) != 2 or inside.name != "sub" or inside.kwargs:
            continue
        size = _argument(program, inside.args[0], "abs")
        if size is not None and is_same(program, size, z):
            return SoftThreshold(z, inside.args[1])
    return None


def soft_threshold_value(z: Value, t: Value | Tensor | float) -> Value | None:
    """The enclosures; None where t may be negative."""
    numbers = None if isinstance(t, Value) else torch.as_tensor(t, dtype=torch.float64)
    least = t.box.lo if isinstance(t, Value) else numbers
    if least is None or not bool((least >= 0).all()):
        return None
    parts = [
        elementwise(ELEMENTARY["relu"], _beyond(z, t if isinstance(t, Value) else numbers, side)) for side in (1, -1)
    ]
    return linear_value(parts, lambda x, y: x - y, lambda x, y: x + y, None, moves=False, terms=2)


def _beyond(z: Value, t: Value | Tensor | None, side: int) -> Value:
    """z − t, or −z − t."""
    if isinstance(t, Value):
        return linear_value([z, t], lambda x, y: side * x - y, lambda x, y: x + y, None, moves=False, terms=2)
    assert t is not None
    shape = (torch.zeros(z.shape) + torch.zeros(t.shape)).shape
    offset = -t.expand(shape)
    return linear_value(
        [z], lambda x: (side * x).expand(shape), lambda x: x.expand(shape), offset, moves=False, terms=2
    )


def _argument(program: Program, x: Any, *names: str) -> Ref | None:
    """The only argument of an operation with one of these names."""
    operation = program.operations[x.node] if isinstance(x, Ref) else None
    if operation is None or operation.name not in names or len(operation.args) != 1 or operation.kwargs:
        return None
    first = operation.args[0]
    return first if isinstance(first, Ref) else None


def _positive_part(program: Program, x: Any) -> Operation | None:
    """The operation whose result u is in max(u, 0)."""
    operation = program.operations[x.node] if isinstance(x, Ref) else None
    if operation is None or operation.kwargs or not operation.args or not isinstance(operation.args[0], Ref):
        return None
    rest = tuple(operation.args[1:])
    is_positive_part = (operation.name == "relu" and not rest) or (
        operation.name in ("clamp", "clamp_min") and rest in ((0,), (0, None))
    )
    return program.operations[operation.args[0].node] if is_positive_part else None

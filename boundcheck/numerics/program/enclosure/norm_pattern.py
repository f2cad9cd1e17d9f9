"""Find x/√(sΣx² + ε) among recorded operations, the last step of layer norm, RMS norm and x/‖x‖.

The root is recorded as several operations, each of which has much larger derivatives than the quotient. The numbers s
and ε are exact: they are sums, products and quotients of numbers in the program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

from boundcheck.numerics.program.recorded_program import Operation, Program, Ref

DEPTH = 12  # number of preceding operations up to which two operations are compared


@dataclass(frozen=True)
class Norm:
    """x/√(`scale`·Σx² + `epsilon`) with a sum over some axes of x."""

    x: Ref
    scale: Fraction
    epsilon: Fraction
    dims: tuple[int, ...]


def norm_of(program: Program, operation: Operation) -> Norm | None:
    """Return the quotient that an operation computes; None if it is another operation."""
    if operation.name not in ("mul", "div") or operation.kwargs or len(operation.args) != 2:
        return None
    one, two = operation.args
    if not isinstance(one, Ref) or not isinstance(two, Ref):
        return None
    for x, root in ((one, two), (two, one)) if operation.name == "mul" else ((one, two),):
        square = _under_root(program, root, inverse=operation.name == "mul")
        affine = None if square is None else _affine(program, square)
        if affine is None or not is_same(program, affine.x, x):
            continue
        if affine.scale > 0 and affine.epsilon >= 0 and shape_of(program, x) == operation.shapes[0]:
            return affine
    return None


def shape_of(program: Program, x: Ref) -> torch.Size:
    """Return the shape of a recorded tensor."""
    return program.operations[x.node].shapes[x.item]


def _under_root(program: Program, x: Ref, *, inverse: bool) -> Ref | None:
    """Return t with x = √t, or x = 1/√t if `inverse`; None if x has another form."""
    operation = program.operations[x.node]
    while operation.name == "expand" and isinstance(operation.args[0], Ref):
        operation = program.operations[operation.args[0].node]
    name, args = operation.name, operation.args
    is_root = name == ("rsqrt" if inverse else "sqrt") or (name == "pow" and args[1:] == (-0.5 if inverse else 0.5,))
    return args[0] if is_root and isinstance(args[0], Ref) else None


def _affine(program: Program, t: Ref) -> Norm | None:
    """Return s, ε and x with t = sΣx² + ε; None if t has another form."""
    operation = program.operations[t.node]
    name, args = operation.name, operation.args
    if name in ("sum", "mean"):
        return _sum_of_squares(program, operation)
    if name not in ("add", "mul", "div") or operation.kwargs or len(args) != 2:
        return None
    number = _number(args[1])
    if not isinstance(args[0], Ref) or number is None or (name == "div" and number == 0):
        return None
    inner = _affine(program, args[0])
    if inner is None:
        return None
    if name == "add":
        return Norm(inner.x, inner.scale, inner.epsilon + number, inner.dims)
    by = number if name == "mul" else 1 / number
    return Norm(inner.x, inner.scale * by, inner.epsilon * by, inner.dims)


def _number(x: Any) -> Fraction | None:
    if isinstance(x, torch.Tensor):
        if x.numel() != 1 or x.requires_grad:
            return None
        x = x.item()
    return Fraction(x) if isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) else None


def _sum_of_squares(program: Program, operation: Operation) -> Norm | None:
    """Return the sum or mean of squares over some axes, which stay with length 1, or over all axes."""
    args = operation.args
    if operation.kwargs or not isinstance(args[0], Ref):
        return None
    square = program.operations[args[0].node]
    if not square.args or not isinstance(square.args[0], Ref):
        return None
    x = square.args[0]
    is_square = square.name == "pow" and square.args[1:] == (2,)
    is_square |= square.name == "mul" and len(square.args) == 2 and square.args[1] == x and not square.kwargs
    if not is_square:
        return None
    shape = shape_of(program, x)
    if len(args) == 1:
        dims = tuple(range(len(shape)))
    elif len(args) == 3 and args[2] is True and args[1]:
        dims = tuple(sorted(dim % len(shape) for dim in args[1]))
    else:
        return None
    count = math.prod(shape[dim] for dim in dims)
    if not count:
        return None
    return Norm(x, Fraction(1, count if operation.name == "mean" else 1), Fraction(0), dims)


def is_same(program: Program, one: Any, two: Any, depth: int = DEPTH) -> bool:
    """Return True if two values are the same, or are computed from the same tensors in the same way."""
    if isinstance(one, Ref) and isinstance(two, Ref):
        if one == two:
            return True
        a, b = program.operations[one.node], program.operations[two.node]
        return (
            one.item == two.item
            and min(one.node, two.node, depth) > 1  # not an input
            and a.func is b.func
            and a.name == b.name
            and is_same(program, list(a.args), list(b.args), depth - 1)
            and is_same(program, list(a.kwargs.items()), list(b.kwargs.items()), depth - 1)
        )
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(is_same(program, x, y, depth) for x, y in zip(one, two, strict=True))
    if isinstance(one, torch.Tensor) or isinstance(two, torch.Tensor):
        return one is two
    return type(one) is type(two) and bool(one == two)

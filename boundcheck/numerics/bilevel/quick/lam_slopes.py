"""Derivatives by λ of prepared values that are known functions of λ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise import linear_maps
from boundcheck.numerics.program.recognise.expression import Expression, FunctionOfMap, Part, Poly
from boundcheck.numerics.program.recognise.linear_maps import Rows, Selection, TwoSided, flat
from boundcheck.numerics.program.recognise.stage import Held, Stage, Unknown, Value

MOST_NUMBERS = 2_000_000  # the most entries of a Jacobian by λ


def varies(value: Value | None) -> bool:
    """Return whether a value depends on λ, other than through a step that is held fixed."""
    return isinstance(value, Held) and value.varies


@dataclass(frozen=True, eq=False)
class Entrywise:
    """For every entry of a value, the index of the one entry of λ on which it depends, and the derivative by it."""

    index: Tensor
    slope: Value


def entrywise(stage: Stage, value: Value | None, count: int) -> Entrywise | None:
    """Return the derivatives of `count` entries, if each depends on one entry of λ; otherwise None."""
    x = _expression(value)
    if x is None or not all(isinstance(part.linear, Selection) for part in x.parts):
        return None
    index, slope = torch.full((count,), -1, device=stage.lam.example.device), None
    for part in x.parts:
        part_index = _index(part).expand(x.shape).reshape(-1).expand(count)
        part_index = torch.where(_idle(part, x.shape, part_index), -1, part_index)
        if bool(((index != part_index) & (index >= 0) & (part_index >= 0)).any()):
            return None
        index = torch.maximum(index, part_index)
        part_slope = _slope(stage, part, x.shape)
        slope = part_slope if slope is None else stage.compute(torch.add, slope, part_slope)
    return None if slope is None else Entrywise(index, slope)


def _expression(value: Value | None) -> Expression | None:
    x = value.of_lam if isinstance(value, Held) else None
    if x is None or x.summed is not None or not all(isinstance(part, Poly | FunctionOfMap) for part in x.parts):
        return None
    return x


def _index(part: Part) -> Tensor:
    if not isinstance(part.linear, Selection):
        raise Unknown("a function of several entries of λ")
    return part.linear.index


def _idle(part: Part, shape: torch.Size, like: Tensor) -> Tensor:
    """Return a mask of the entries on which a part has no influence, because its constant factor is 0."""
    idle = torch.ones_like(like, dtype=torch.bool)
    for factor in (part.a2, part.a1) if isinstance(part, Poly) else (getattr(part, "c", None),):
        if isinstance(part, Poly) and factor is None:
            continue
        if not isinstance(factor, Tensor):
            return torch.zeros_like(idle)
        idle = idle & (factor.expand(shape).reshape(-1).expand(len(like)) == 0)
    return idle


def _computed(stage: Stage, part: Part, shape: torch.Size, function: Callable[..., Tensor]) -> Value:
    """Return the value of a function of ℓ(λ) and of the coefficients of a part: a₂ and a₁, or c, a and b."""
    linear = part.linear
    if not isinstance(linear, Selection | Rows):
        raise Unknown("a product of matrices with λ")

    def value_at(lam: Tensor, matrix: Tensor | None, *coefficients: Tensor | None) -> Tensor:
        u = lam[_index(part)] if matrix is None else torch.mv(matrix, lam).view(shape)
        return function(u, *coefficients)

    names = ("a2", "a1") if isinstance(part, Poly) else ("c", "a", "b")
    matrix = linear.matrix if isinstance(linear, Rows) else None
    value: Value = stage.compute(value_at, stage.lam, matrix, *(getattr(part, name) for name in names))
    return value


def _slope(stage: Stage, part: Part, shape: torch.Size) -> Value:
    """Return the derivative of a part by its linear map ℓ(λ): a number, or a number for each entry."""
    if isinstance(part, Poly) and part.a2 is None and part.a1 is not None:
        value = part.a1
    elif isinstance(part, Poly):
        value = _computed(stage, part, shape, lambda u, a2, a1: 2 * a2 * u if a1 is None else 2 * a2 * u + a1)
    elif isinstance(part, FunctionOfMap):
        slope = part.function.slope

        def by_chain(u: Tensor, c: Tensor | None, a: Tensor, b: Tensor | None) -> Tensor:
            inner = a * slope(a * u if b is None else a * u + b)
            return inner if c is None else c * inner

        value = _computed(stage, part, shape, by_chain)
    else:
        raise Unknown("a function of λ without a formula")
    flattened: Value = stage.compute(lambda x: flat(x, shape), value)
    return flattened


@dataclass(frozen=True, eq=False)
class Jacobian:
    """The transposed derivative of a flat value by λ: a constant (n, entries) plus a sum of products slope∘matrix."""

    constant: Tensor | None
    parts: tuple[tuple[Value, Tensor], ...]


def jacobian(stage: Stage, value: Value | None, count: int) -> Jacobian | None:
    """Return the derivative as a matrix, if the value is a known function of λ and the matrix is not too large."""
    x, n = _expression(value), stage.lam.example.numel()
    if x is None or x.shape.numel() != count or count * n > MOST_NUMBERS:
        return None
    constant: Tensor | None = None
    parts: list[tuple[Value, Tensor]] = []
    for part in x.parts:
        try:
            matrix = linear_maps.as_rows(stage, part.linear, x.shape, n, stage.lam.example).matrix
        except Unknown:
            return None
        if not isinstance(matrix, Tensor):
            return None
        rows_T, slope = matrix.mT.contiguous(), _slope(stage, part, x.shape)
        if not isinstance(slope, Tensor):
            parts.append((slope, rows_T))
        else:
            constant = slope * rows_T if constant is None else constant + slope * rows_T
    return Jacobian(constant, tuple(parts))


def left_factor(stage: Stage, value: Value | None) -> Value | None:
    """Return X, if the value is X times a matrix whose rows are in λ one after the other; otherwise None."""
    x = _expression(value)
    if x is None or len(x.parts) != 1 or x.constant is not None:
        return None
    (part,) = x.parts
    n = stage.lam.example.numel()
    if not isinstance(part, Poly) or part.a2 is not None or not isinstance(part.linear, TwoSided):
        return None
    linear = part.linear
    in_order = linear.index.numel() == n and torch.equal(
        linear.index.reshape(-1), torch.arange(n, device=linear.index.device)
    )
    if linear.right is not None or linear.left is None or not in_order or part.a1 is None:
        return None
    factor = part.a1
    if not isinstance(factor, Tensor) or factor.numel() > 1 or not isinstance(linear.left, Tensor):
        return None
    return linear.left * factor.reshape(())


def value_of(stage: Stage, held: Held) -> Held:
    """Return the value recomputed from its expression, in which a sum over data is a product with one matrix."""
    x = _expression(held)
    if x is None or not any(isinstance(part.linear, Rows) for part in x.parts):
        return held
    if not all(isinstance(part.linear, Selection | Rows) for part in x.parts):
        return held
    total: Value | None = x.constant
    for part in x.parts:
        part_value = _part_value(stage, part, x.shape)
        total = part_value if total is None else stage.compute(torch.add, total, part_value)
    return total if isinstance(total, Held) else held


def _part_value(stage: Stage, part: Part, shape: torch.Size) -> Value:
    if isinstance(part, Poly):

        def polynomial(u: Tensor, a2: Tensor | None, a1: Tensor | None) -> Tensor:
            value = torch.zeros_like(u) if a1 is None else a1 * u
            return value if a2 is None else value + a2 * u * u

        return _computed(stage, part, shape, polynomial)
    if not isinstance(part, FunctionOfMap):
        raise Unknown("a function of λ without a formula")
    function = part.function.all

    def curve(u: Tensor, c: Tensor | None, a: Tensor, b: Tensor | None) -> Tensor:
        value = function(a * u if b is None else a * u + b)[0]
        return value if c is None else c * value

    return _computed(stage, part, shape, curve)

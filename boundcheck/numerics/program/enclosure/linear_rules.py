"""Operations that are linear in the tensors that vary: sums, moves of numbers, and arithmetic with numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from boundcheck.numerics.program.enclosure import chain as chains
from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY
from boundcheck.numerics.program.enclosure.elementwise import elementwise, elementwise_value
from boundcheck.numerics.program.enclosure.linear import linear_value
from boundcheck.numerics.program.enclosure.sparse_derivative import of_factors, of_sum
from boundcheck.numerics.program.enclosure.value import Value
from boundcheck.numerics.program.recorded_program import Declined, Operation

# operations that only move numbers
MOVES = frozenset((
    "view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose", "t", "squeeze", "unsqueeze", "expand",
    "select", "slice", "split", "split_with_sizes", "unbind", "chunk", "clone", "alias", "contiguous", "_to_copy",
    "lift_fresh", "cat", "stack", "index", "index_select", "gather", "diagonal", "flip", "roll", "tril", "triu", "diag",
    "diag_embed", "repeat", "movedim", "flatten", "where", "take", "rot90", "unflatten", "narrow",
    "constant_pad_nd", "unfold", "select_scatter", "slice_scatter", "im2col",
))  # fmt: skip
SUMS = frozenset(
    (
        "sum",
        "mean",
        "cumsum",
        "trace",
        "add",
        "sub",
        "rsub",
        "_adaptive_avg_pool2d",
        "avg_pool2d",
        "index_add",
        "scatter_add",
    )
)
AFFINE = frozenset(("add", "sub", "rsub", "mul", "div", "neg"))  # entry by entry, with a number as the other argument
SEVERAL = frozenset(("split", "split_with_sizes", "unbind", "chunk"))  # operations that return a list


def _is_value(x: Any) -> bool:
    return isinstance(x, Value)


def linear_operation(operation: Operation, args: Any, kwargs: Any, item: int | None = None) -> Value:
    """Return the result of an operation that is linear in all tensors that vary; numbers contribute an offset."""
    name = operation.name
    if name in ("where", "cat", "stack"):  # integers among the values count as numbers
        args = (*args[: name == "where"], *tree_map(_as_float, args[name == "where" :], is_leaf=_is_value))
    leaves, spec = tree_flatten((args, kwargs), is_leaf=_is_value)
    places = [i for i, x in enumerate(leaves) if isinstance(x, Value)]
    inputs = [leaves[i] for i in places]
    function = without_layout(operation)

    def run(xs: Any, numbers: Callable[[Any], Any]) -> Tensor:
        new_leaves = [numbers(x) for x in leaves]
        for i, x in zip(places, xs, strict=True):
            new_leaves[i] = x
        new_args, new_kwargs = tree_unflatten(new_leaves, spec)
        result = function(*new_args, **new_kwargs)
        tensor: Tensor = result if item is None else result[item]
        return tensor

    def zero_of(x: Any) -> Any:
        return torch.zeros_like(x) if isinstance(x, Tensor) and x.is_floating_point() else x

    if name in ("add", "sub", "rsub"):
        alpha = alpha_of_sum(args, kwargs)
        signs = (1.0, alpha) if name == "add" else (1.0, -alpha) if name == "sub" else (-alpha, 1.0)
        return sum_of_two(args[0], args[1], signs)
    zeros = [torch.zeros(x.shape, dtype=torch.float64) for x in inputs]
    has_numbers = any(isinstance(x, Tensor) and x.is_floating_point() for x in leaves)
    offset = run(zeros, lambda x: x) if has_numbers else None
    terms = max(x.box.lo.numel() for x in inputs)

    def linear_part(*xs: Tensor) -> Tensor:
        return run(xs, zero_of)

    coefficients = None
    if name in ("sum", "mean") and len(inputs) == 1:
        shape = inputs[0].shape
        share = 1.0 if name == "sum" else operation.shapes[0].numel() / max(shape.numel(), 1)
        coefficients = partial(of_sum, linear_part, shape, share)
    return linear_value(
        inputs, linear_part, linear_part, offset, moves=name in MOVES, terms=terms, coefficients=coefficients
    )


def _as_float(x: Any) -> Any:
    return x.to(torch.float64) if isinstance(x, Tensor) else x


def alpha_of_sum(args: Any, kwargs: Any) -> float:
    """Return the factor of the second term of a sum, which some overloads take by position."""
    factor: float = args[2] if len(args) > 2 else kwargs.get("alpha", 1)
    return factor


def without_layout(operation: Operation) -> Callable[..., Any]:
    """Return the function of an operation, without requirements on the memory layout."""
    if operation.name in ("view", "_unsafe_view", "_reshape_alias"):
        return lambda x, shape, *rest: x.reshape(shape)
    if operation.name in ("_to_copy", "clone", "alias", "contiguous", "lift_fresh"):
        return lambda x, *rest, **more: x
    if operation.name == "index":
        return lambda x, indices: operation.func(x, _without_masks(indices))
    function: Callable[..., Any] = operation.func
    return function


def _without_masks(indices: Any) -> list[Any]:
    """Replace boolean masks by integer indices, as vmap cannot know how many entries of a mask are true."""
    return [part for index in indices for part in (index.nonzero().unbind(1) if _is_mask(index) else (index,))]


def _is_mask(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype == torch.bool


def expanded(x: Value, shape: torch.Size) -> Value:
    if x.shape == shape:
        return x
    return linear_value([x], lambda t: t.expand(shape), lambda t: t.expand(shape), None, moves=True, terms=1)


def sum_of_two(x: Any, y: Any, signs: tuple[float, float]) -> Value:
    """Return a·x + b·y for two numbers `signs` = (a, b). x or y may be a number."""
    shape = common_shape(_shape(x), _shape(y))
    if isinstance(x, Value) and isinstance(y, Value):
        one, two = chains.chain_of(x), chains.chain_of(y)
        if one.base is two.base and one.bent + two.bent and signs[0] == 1 and x.shape == y.shape:
            return elementwise_value(chains.summed(one, two, signs[1]))
    values, factors = [], []
    offset = torch.zeros((), dtype=torch.float64)
    for z, sign in ((x, signs[0]), (y, signs[1])):
        if isinstance(z, Value):
            values.append(z)
            factors.append(float(sign))
        else:
            offset = offset + sign * torch.as_tensor(z, dtype=torch.float64)
    offset_or_none = None if len(values) == 2 else offset.expand(shape)
    plain = all(abs(factor) == 1 for factor in factors)

    def f(*xs: Tensor) -> Tensor:
        return _total([factor * t if factor != 1 else t for factor, t in zip(factors, xs, strict=True)], shape)

    def size(*xs: Tensor) -> Tensor:
        return _total([abs(factor) * t for factor, t in zip(factors, xs, strict=True)], shape)

    moves = plain and len(values) == 1 and all(factor == 1 for factor in factors)
    coefficients = None
    if len(values) == 1:
        coefficients = partial(of_factors, torch.tensor(factors[0], dtype=torch.float64), values[0].shape, shape)
    return linear_value(values, f, size, offset_or_none, moves=moves, terms=2, coefficients=coefficients)


def _total(parts: list[Tensor], shape: torch.Size) -> Tensor:
    total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return total.expand(shape)


def common_shape(one: torch.Size, two: torch.Size) -> torch.Size:
    shape: torch.Size = torch.broadcast_shapes(one, two)  # type: ignore[no-untyped-call]
    return shape


def _shape(x: Any) -> torch.Size:
    return x.shape if isinstance(x, Value | Tensor) else torch.Size()


def affine_operation(operation: Operation, args: Any, kwargs: Any, x: Value) -> Value:
    """Return a·x + b entry by entry, for a tensor x that varies and numbers a and b. It extends the chain of x."""
    name = operation.name
    if name == "div" and (kwargs.get("rounding_mode") is not None):
        raise Declined("aten.div with a rounding mode")
    if name == "div" and isinstance(args[1], Value):  # a number over a tensor
        inverse = elementwise(ELEMENTARY["reciprocal"], args[1])
        return scaled(inverse, torch.as_tensor(args[0], dtype=torch.float64))
    if name == "neg":
        minus = partial(of_factors, torch.tensor(-1.0, dtype=torch.float64), x.shape, x.shape)
        result = linear_value([x], torch.neg, lambda t: t, None, moves=False, terms=1, coefficients=minus)
        centre = -x.centre
        result = replace(result, centre=centre, box=centre if x.at_point else -x.box)
        factor, offset = -1.0, torch.zeros((), dtype=torch.float64)
    elif name in ("mul", "div"):
        number = torch.as_tensor(args[1] if isinstance(args[0], Value) else args[0], dtype=torch.float64)
        return scaled(x, number) if name == "mul" else divided(x, number)
    else:
        result = linear_operation(operation, args, kwargs)
        alpha = alpha_of_sum(args, kwargs)
        other = torch.as_tensor(args[1] if isinstance(args[0], Value) else args[0], dtype=torch.float64)
        first = isinstance(args[0], Value)
        if name == "add":
            factor, offset = (1.0, alpha * other) if first else (alpha, other)
        elif name == "sub":
            factor, offset = (1.0, -alpha * other) if first else (-alpha, other)
        else:
            factor, offset = (-alpha, other) if first else (1.0, -alpha * other)
    if result.shape == x.shape and abs(alpha_of_sum(args, kwargs)) == 1:  # then the chain has no rounding
        result.chain = chains.scaled(chains.chain_of(x), torch.tensor(float(factor), dtype=torch.float64), offset)
    return result


def scaled(x: Value, number: Tensor) -> Value:
    """Return x times numbers."""
    shape = common_shape(x.shape, number.shape)
    size = number.abs()
    result = linear_value(
        [x], lambda t: (t * number).expand(shape), lambda t: (t * size).expand(shape), None, moves=False, terms=1,
        coefficients=partial(of_factors, number, x.shape, shape),
    )  # fmt: skip
    if shape == x.shape:
        result.chain = chains.scaled(chains.chain_of(x), number, torch.zeros((), dtype=torch.float64))
    return result


def divided(x: Value, number: Tensor) -> Value:
    """Return x over numbers. The rounding of 1/number is covered by `terms=2`."""
    shape = common_shape(x.shape, number.shape)
    size = number.abs()
    result = linear_value(
        [x], lambda t: (t / number).expand(shape), lambda t: (t / size).expand(shape), None, moves=False, terms=2
    )
    exact = bool((torch.frexp(number).mantissa.abs() == 0.5).all())  # a power of two
    if shape == x.shape and exact:
        result.chain = chains.scaled(chains.chain_of(x), 1 / number, torch.zeros((), dtype=torch.float64))
    return result

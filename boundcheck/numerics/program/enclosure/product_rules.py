"""Products of two tensors that vary, or of one tensor with numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure import chain as chains
from boundcheck.numerics.program.enclosure.bilinear_value import bilinear_value
from boundcheck.numerics.program.enclosure.elementary import power
from boundcheck.numerics.program.enclosure.elementwise import elementwise, elementwise_value
from boundcheck.numerics.program.enclosure.linear import linear_value
from boundcheck.numerics.program.enclosure.linear_rules import common_shape, expanded
from boundcheck.numerics.program.enclosure.sparse_derivative import of_product
from boundcheck.numerics.program.enclosure.value import MOST_NUMBERS, Value
from boundcheck.numerics.program.recorded_program import Declined, Operation

PRODUCTS = frozenset(("mul", "mm", "mv", "dot", "vdot", "bmm", "matmul", "outer", "convolution"))


def product_operation(operation: Operation, args: Any, kwargs: Any, varying: list[Value]) -> Value:
    """Return a product, by the rule for the factors that vary."""
    name = operation.name
    if len(varying) == 1:
        return _product_with_numbers(operation, args, kwargs, varying[0])
    if len(varying) != 2 or not (isinstance(args[0], Value) and isinstance(args[1], Value)):
        raise Declined(f"aten.{name} of more than two tensors that vary")
    p, q = args[0], args[1]
    if name == "mul":
        return entrywise_product(p, q)
    if name in ("dot", "vdot") and p is q:
        squares = elementwise(power(2), p)
        return linear_value([squares], torch.sum, torch.sum, None, moves=False, terms=p.box.lo.numel())
    if name == "convolution":
        if len(args) > 2 and args[2] is not None:
            raise Declined("aten.convolution with a bias that is not added by itself")
        rest = args[3:]

        def B(x: Tensor, y: Tensor) -> Tensor:
            convolution: Tensor = operation.func(x, y, None, *rest)
            return convolution

        return bilinear_value(p, q, B, entrywise=False, terms=q.box.lo.numel())
    terms = p.shape[-1]
    return bilinear_value(p, q, operation.func, entrywise=False, terms=terms)


def entrywise_product(p: Value, q: Value) -> Value:
    """Return p·q, entry by entry; as a function of one number if both are functions of one tensor."""
    one, two = chains.chain_of(p), chains.chain_of(q)
    if p is q:
        return elementwise(power(2), p)
    if one.base is two.base and p.shape == q.shape:
        return elementwise_value(chains.multiplied(one, two))
    shape = common_shape(p.shape, q.shape)
    return bilinear_value(expanded(p, shape), expanded(q, shape), torch.mul, entrywise=True, terms=1)


def _product_with_numbers(operation: Operation, args: Any, kwargs: Any, x: Value) -> Value:
    if operation.name == "convolution" and len(args) > 2 and isinstance(args[2], Value):
        raise Declined("aten.convolution with a bias that varies")
    place = 0 if isinstance(args[0], Value) else 1
    if not isinstance(args[place], Value):
        raise Declined(f"aten.{operation.name} with these arguments")
    other = args[1 - place]
    rest = list(args[2:])
    bias = rest[0] if operation.name == "convolution" else None
    if operation.name == "convolution":
        rest[0] = None

    def run(t: Tensor, number: Tensor) -> Tensor:
        factors = (t, number) if place == 0 else (number, t)
        result: Tensor = operation.func(*factors, *rest, **kwargs)
        return result

    offset = None
    if bias is not None:
        offset = bias.reshape(1, -1, *[1] * (x.box.lo.dim() - 2)).expand(operation.shapes[0])
    terms = x.box.lo.numel() if operation.name == "convolution" else x.shape[-1] if place == 0 else other.shape[-1]
    coefficients = None
    if operation.name in ("mm", "mv", "dot", "vdot", "matmul"):
        coefficients = partial(of_product, other, x.shape, place == 0)
    return linear_value(
        [x], lambda t: run(t, other), lambda t: run(t, other.abs()), offset, moves=False, terms=max(terms, 1),
        coefficients=coefficients,
    )  # fmt: skip


def matrix_product(x: Value, matrix: Any) -> Value:
    """Return the product with a matrix that is not a tensor. The matrix is formed."""
    rows = matrix.by_rows()
    if rows.shape[0] * rows.shape[1] > MOST_NUMBERS // 10:
        raise Declined(f"a matrix of {rows.shape[0]} × {rows.shape[1]} is too large to be formed")
    X = torch.from_numpy(rows.toarray() if hasattr(rows, "toarray") else rows)
    size = X.abs()
    return linear_value([x], lambda t: X @ t, lambda t: size @ t, None, moves=False, terms=X.shape[1])

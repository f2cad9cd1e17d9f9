"""Products of matrices with expressions of degree 1, and sums of such expressions along axes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise import linear_maps
from boundcheck.numerics.program.recognise.expression import Expression, Poly
from boundcheck.numerics.program.recognise.linear_maps import Combination, Linear, Rows, Selection, TwoSided
from boundcheck.numerics.program.recognise.stage import Unknown, Value, example

if TYPE_CHECKING:
    from boundcheck.numerics.program.recognise.algebra import Algebra, Node


def matrix_product(algebra: Algebra, A: Value, x: Node, *, left: bool) -> Expression:
    """Return A x if `left`, else x A, for a vector or matrix x of degree 1."""
    if not isinstance(x, Expression) or not x.affine:
        raise Unknown("a matrix times a function of w")
    x, stage = _plain(algebra.single(x)), algebra.stage
    constant = None
    if x.constant is not None:
        sides = (lambda A, b: A @ b.expand(x.shape)) if left else (lambda A, b: b.expand(x.shape) @ A)
        constant = stage.compute(sides, A, x.constant)
    # a vector, or a matrix with one column or row
    if len(x.shape) == 1 or (len(x.shape) == 2 and x.shape[1 if left else 0] == 1):
        return _of_vector(algebra, A, x, constant, left)
    if len(x.shape) != 2 or example(A).dim() != 2:
        raise Unknown("a product of tensors with more axes")
    return _of_matrix(algebra, A, x, constant, left)


def _of_vector(algebra: Algebra, A: Value, x: Expression, constant: Value | None, left: bool) -> Expression:
    stage, part = algebra.stage, algebra.slope(x)
    F, factor = A if left else stage.move(lambda A: A.mT, A), part.a1  # F has a column for each entry of x
    if example(factor).numel() > 1:
        each = stage.move(lambda a: linear_maps.flat(a, x.shape), factor)
        F, factor = stage.compute(torch.mul, F, each), algebra.number(1.0)
    if isinstance(part.linear, Selection):
        index = part.linear.index.expand(x.shape).reshape(-1)
        linear = Rows(linear_maps.columns_at(stage, F, index, algebra.d))
    elif isinstance(part.linear, Rows):
        linear = Rows(stage.compute(torch.matmul, F, part.linear.matrix))
    else:
        raise Unknown("a matrix times a matrix product")
    rows = example(F).shape[0]
    shape = torch.Size((rows,) if len(x.shape) == 1 else (rows, 1) if left else (1, rows))
    return Expression((Poly(linear, None, factor),), constant, shape)


def _of_matrix(algebra: Algebra, A: Value, x: Expression, constant: Value | None, left: bool) -> Expression:
    stage, part = algebra.stage, algebra.slope(x)
    if example(part.a1).numel() > 1:
        raise Unknown("a matrix of parameters with factors")
    if isinstance(part.linear, Selection):
        two_sided = TwoSided(None, part.linear.index.expand(x.shape), None)
    elif isinstance(part.linear, TwoSided):
        two_sided = part.linear
    else:
        raise Unknown("a matrix times a matrix product")
    if left:
        side = A if two_sided.left is None else stage.compute(torch.matmul, A, two_sided.left)
        linear, shape = replace(two_sided, left=side), (example(A).shape[0], x.shape[1])
    else:
        side = A if two_sided.right is None else stage.compute(torch.matmul, two_sided.right, A)
        linear, shape = replace(two_sided, right=side), (x.shape[0], example(A).shape[1])
    return Expression((Poly(linear, None, part.a1),), constant, torch.Size(shape))


def _plain(x: Expression) -> Expression:
    """Return the same expression, with a combination of a single map replaced by that map."""
    (part,) = x.parts
    if isinstance(part.linear, Combination) and len(part.linear.pieces) == 1:
        ((a, linear),) = part.linear.pieces
        return x.but(parts=(Poly(linear, None, a),))
    return x


def sum_of_rows(algebra: Algebra, x: Expression, axes: tuple[int, ...], keep: bool) -> Expression:
    """Return a sum along axes of an expression of degree 1, as a matrix times w."""
    if not x.affine or x.shape.numel() > linear_maps.MOST_NUMBERS:
        raise Unknown("a sum of functions")
    remaining = [axis for axis in range(len(x.shape)) if axis not in axes]
    order, remaining_shape = (*remaining, *axes), torch.Size(x.shape[axis] for axis in remaining)
    if remaining_shape.numel() * algebra.d > linear_maps.MOST_NUMBERS:
        raise Unknown(f"a matrix of {remaining_shape.numel()} × {algebra.d}")
    stage, d, count = algebra.stage, algebra.d, remaining_shape.numel()
    total: Value | None = None
    for part in x.parts:
        if not isinstance(part, Poly) or part.a1 is None:
            raise Unknown("a sum of functions")
        index = _index(part.linear).expand(x.shape).permute(order).reshape(count, -1)

        def matrix_of(a: Tensor, index: Tensor = index) -> Tensor:
            entries = a.expand(x.shape).permute(order).reshape(count, -1)
            return entries.new_zeros(count, d).scatter_add(1, index, entries)

        matrix: Value = stage.compute(matrix_of, part.a1)
        total = matrix if total is None else stage.compute(torch.add, total, matrix)
    if total is None:
        raise Unknown("a sum of nothing")
    constant = None
    if x.constant is not None:
        constant = stage.compute(lambda b: b.expand(x.shape).sum(axes, keepdim=keep), x.constant)
    shape = torch.Size(1 if i in axes else n for i, n in enumerate(x.shape)) if keep else remaining_shape
    return Expression((Poly(Rows(total), None, algebra.number(1.0)),), constant, shape)


def _index(linear: Linear) -> Tensor:
    if not isinstance(linear, Selection):
        raise Unknown("a sum of matrix products")
    return linear.index


def joined(algebra: Algebra, nodes: list[Node], axis: int) -> Expression:
    """Return a concatenation of entries of w with factors."""
    indices, factors = [], []
    for node in nodes:
        if not isinstance(node, Expression) or not node.affine or node.constant is not None or len(node.parts) != 1:
            raise Unknown("a function of w")
        part = algebra.slope(node)
        indices.append(_index(part.linear).expand(node.shape))
        factors.append((part.a1, node.shape))
    index = torch.cat(indices, axis)

    def concatenation(*values: Tensor) -> Tensor:
        return torch.cat([a.expand(shape) for a, (_, shape) in zip(values, factors, strict=True)], axis)

    first = factors[0][0]
    same = all(example(a).numel() == 1 and linear_maps.equal(a, first) for a, _ in factors)
    factor = first if same else algebra.stage.compute(concatenation, *(a for a, _ in factors))
    return Expression((Poly(Selection(index), None, factor),), None, index.shape)

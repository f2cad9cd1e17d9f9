"""Sums, products and functions of expressions; what has no formula raises `Unknown`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise import linear_maps
from boundcheck.numerics.program.recognise.elementary import Function
from boundcheck.numerics.program.recognise.expression import CrossEntropy, Curve, Expression, Pair, Part, Poly
from boundcheck.numerics.program.recognise.linear_maps import Combination, Rows, Selection, TwoSided
from boundcheck.numerics.program.recognise.stage import Stage, Unknown, Value, example


@dataclass(frozen=True, eq=False)
class Total:
    """A single number: the sum of all entries of parts of several shapes, up to a constant."""

    terms: tuple[tuple[Part, torch.Size], ...]
    shape = torch.Size(())

    @classmethod
    def of(cls, x: Node) -> Total:
        return x if isinstance(x, Total) else cls(tuple((part, x.inner) for part in x.parts))

    def plus(self, other: Total) -> Total:
        return Total(self.terms + other.terms)


Node = Expression | Total


def total(x: Node) -> Total:
    """A single number as such."""
    if x.shape.numel() != 1:
        raise Unknown("sums over different axes")
    return Total.of(x)


class Algebra:
    """Operations on expressions of a w with d entries.

    Of a sum, constants are dropped, as derivatives are taken of it; with `exact`, sums are kept as they are.
    """

    def __init__(self, stage: Stage, w: Tensor, *, exact: bool = False) -> None:
        self.stage, self.w, self.d, self.exact = stage, w, w.numel(), exact

    def number(self, x: float) -> Tensor:
        return torch.tensor(x, dtype=self.w.dtype, device=self.w.device)

    def variable(self) -> Expression:
        """w itself."""
        index = torch.arange(self.d, device=self.w.device)
        return Expression((Poly(Selection(index), None, self.number(1.0)),), None, self.w.shape)

    def by_name(self, name: str, x: Any, *rest: Any) -> Expression:
        """One of the operations below, on an expression of λ beside values of a stage."""
        if name == "apply":
            result = self.apply(x, rest[0])
        elif name == "move":
            result = self.moved(x, rest[0])
        else:
            x, y = (x, rest[0]) if isinstance(x, Expression) else (rest[0], x)
            if name == "add":
                result = self.add(x, y)
            else:
                result = self.product(x, y) if isinstance(y, Expression) else self.scale(x, y)
        if not isinstance(result, Expression):
            raise Unknown("a sum")
        return result

    # coefficients: None is 0 in sums

    def plus(self, x: Value | None, y: Value | None) -> Value | None:
        if x is None or y is None:
            return y if x is None else x
        return self.stage.add(x, y)

    def times(self, x: Value | None, y: Value | None) -> Value | None:
        return None if x is None or y is None else self.stage.mul(x, y)

    # operations

    def add(self, x: Node, y: Node | Value) -> Node:
        if isinstance(y, Expression | Total):
            if isinstance(x, Total) or isinstance(y, Total):
                return total(x).plus(total(y))
            if x.summed is None and y.summed is None:
                shape = torch.broadcast_shapes(x.shape, y.shape)
                x, y = self.spread(x, shape), self.spread(y, shape)
                return Expression(self.merged(x.parts + y.parts), self.plus(x.constant, y.constant), shape)
            if x.summed == y.summed and x.inner == y.inner and x.keep == y.keep:
                return x.but(parts=x.parts + y.parts)
            return total(x).plus(total(y))
        if isinstance(x, Total) or x.summed is not None:  # a sum is differentiated, so its constant is not kept
            if torch.broadcast_shapes(x.shape, example(y).shape) != x.shape:
                raise Unknown("a sum that is repeated")
            return x
        x = self.spread(x, torch.broadcast_shapes(x.shape, example(y).shape))
        return x.but(constant=self.plus(x.constant, y))

    def merged(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts, with those of the same function of the same map as one."""
        kept: list[Part] = []
        for part in parts:
            for i, other in enumerate(kept):
                if isinstance(part, Poly) and isinstance(other, Poly) and linear_maps.same(part.linear, other.linear):
                    kept[i] = Poly(part.linear, self.plus(other.a2, part.a2), self.plus(other.a1, part.a1))
                    break
                if isinstance(part, Curve) and isinstance(other, Curve) and self._same_curve(part, other):
                    c, d = (self.number(1.0) if x is None else x for x in (other.c, part.c))
                    kept[i] = replace(part, c=self.stage.add(c, d))
                    break
            else:
                kept.append(part)
        return tuple(kept)

    def _same_curve(self, one: Curve, other: Curve) -> bool:
        same = linear_maps.same(one.linear, other.linear) and one.function is other.function
        return same and linear_maps.equal(one.a, other.a) and linear_maps.equal(one.b, other.b)

    def spread(self, x: Expression, shape: torch.Size) -> Expression:
        """The same for a larger shape, where its entries are repeated."""
        if x.shape == shape:
            return x
        if x.summed is not None or not all(isinstance(part, Poly) for part in x.parts):
            raise Unknown("a sum that is repeated")
        return self._moved(x, lambda entries: entries.expand(shape))

    def scale(self, x: Node, factor: Value) -> Node:
        """x times what depends on λ only."""
        if isinstance(x, Total):
            if example(factor).numel() != 1:
                raise Unknown("a sum that is repeated")
            factor = self.stage.move(lambda f: f.reshape(()), factor)
            return Total(tuple((self._scaled(part, factor), inner) for part, inner in x.terms))
        shape = torch.broadcast_shapes(x.shape, example(factor).shape)
        x = self.spread(x, shape)
        if x.summed is not None:
            axes, keep, size = x.summed, x.keep, shape

            def beside(f: Tensor) -> Tensor:
                f = f if f.dim() == 0 else f.expand(size)
                for axis in () if keep or f.dim() == 0 else axes:
                    f = f.unsqueeze(axis)
                return f

            factor = self.stage.move(beside, factor)
        return x.but(
            parts=tuple(self._scaled(part, factor) for part in x.parts), constant=self.times(x.constant, factor)
        )

    def _scaled(self, part: Part, factor: Value) -> Part:
        if isinstance(part, Poly):
            return replace(part, a2=self.times(part.a2, factor), a1=self.times(part.a1, factor))
        return replace(part, c=factor if part.c is None else self.stage.mul(part.c, factor))

    def product(self, x: Node, y: Node) -> Expression:
        """Of two expressions of degree 1."""
        if isinstance(x, Total) or isinstance(y, Total) or not (x.affine and y.affine):
            raise Unknown("a product of two functions of w")
        shape = torch.broadcast_shapes(x.shape, y.shape)
        x, y = self.single(self.spread(x, shape)), self.single(self.spread(y, shape))
        (p,), (q,) = x.parts, y.parts
        if not isinstance(p, Poly) or not isinstance(q, Poly) or p.a1 is None or q.a1 is None:
            raise Unknown("a product of two functions of w")
        cross = (self.times(p.a1, y.constant), self.times(q.a1, x.constant))
        constant = self.times(x.constant, y.constant)
        if linear_maps.same(p.linear, q.linear):
            part = Poly(p.linear, self.stage.mul(p.a1, q.a1), self.plus(*cross))
            return Expression((part,), constant, shape)
        parts: tuple[Part, ...] = (Pair(p.linear, q.linear, self.stage.mul(p.a1, q.a1)),)
        parts += tuple(Poly(z.linear, None, a) for z, a in zip((p, q), cross, strict=True) if a is not None)
        return Expression(parts, constant, shape)

    def single(self, x: Expression) -> Expression:
        """An expression of degree 1 with one linear map."""
        parts = [part for part in x.parts if isinstance(part, Poly) and part.a1 is not None]
        if len(parts) == 1:
            return x.but(parts=tuple(parts))
        if not parts:
            raise Unknown("nothing depends on w")
        pieces = tuple((part.a1, part.linear) for part in parts)
        combined: linear_maps.Linear = Combination(pieces)
        if not any(isinstance(linear, TwoSided) for _, linear in pieces):
            combined = linear_maps.as_rows(self.stage, combined, x.shape, self.d, self.w)
        return x.but(parts=(Poly(combined, None, self.number(1.0)),))

    def apply(self, x: Node, function: Function) -> Expression:
        """φ of an expression of degree 1, entry by entry."""
        if isinstance(x, Total) or not x.affine:
            raise Unknown("a function of a function of w")
        x = self.single(x)
        (part,) = x.parts
        if not isinstance(part, Poly) or part.a1 is None:
            raise Unknown("a function of a function of w")
        return Expression((Curve(part.linear, function, None, part.a1, x.constant),), None, x.shape)

    def cross_entropy(self, x: Expression, classes: Tensor) -> Expression:
        x = self.single(x)
        (part,) = x.parts
        if not isinstance(part, Poly):
            raise Unknown("a function of a function of w")
        linear = Combination(((part.a1, part.linear),))
        return Expression((CrossEntropy(linear, None, x.constant, classes),), None, x.shape[:1])

    def sum(self, x: Node, axes: tuple[int, ...], keep: bool) -> Node:
        """Over axes; over all where none are named."""
        axes = tuple(sorted(axis % max(1, len(x.shape)) for axis in axes))
        if self.exact and isinstance(x, Expression):
            return self._sum_of_rows(x, axes or tuple(range(len(x.shape))), keep)
        if isinstance(x, Total) or not axes or len(axes) == len(x.shape):
            if keep and len(x.shape):
                raise Unknown("a sum with axes")
            return Total.of(x)
        if x.summed is not None:
            raise Unknown("a sum of sums")
        return x.but(summed=axes, keep=keep, constant=None)

    def _sum_of_rows(self, x: Expression, axes: tuple[int, ...], keep: bool) -> Expression:
        """A sum of something of degree 1, as rows of a matrix."""
        if not x.affine or x.shape.numel() > linear_maps.MOST_NUMBERS:
            raise Unknown("a sum of functions")
        left = [axis for axis in range(len(x.shape)) if axis not in axes]
        order, kept_shape = (*left, *axes), torch.Size(x.shape[axis] for axis in left)
        count, total, constant = kept_shape.numel(), None, None
        if count * self.d > linear_maps.MOST_NUMBERS:
            raise Unknown(f"a matrix of {count} × {self.d}")
        for part in x.parts:
            if not isinstance(part, Poly) or part.a1 is None:
                raise Unknown("a sum of functions")
            rows = part.linear.index.expand(x.shape) if isinstance(part.linear, Selection) else None
            if rows is None:
                raise Unknown("a sum of matrix products")
            index = rows.permute(order).reshape(count, -1)

            def added(a: Tensor, index: Tensor = index) -> Tensor:
                entries = a.expand(x.shape).permute(order).reshape(count, -1)
                return entries.new_zeros(count, self.d).scatter_add(1, index, entries)

            matrix = self.stage.compute(added, part.a1)
            total = matrix if total is None else self.stage.compute(torch.add, total, matrix)
        if x.constant is not None:
            constant = self.stage.compute(lambda b: b.expand(x.shape).sum(axes, keepdim=keep), x.constant)
        shape = torch.Size(1 if i in axes else n for i, n in enumerate(x.shape)) if keep else kept_shape
        return Expression((Poly(Rows(total), None, self.number(1.0)),), constant, shape)

    def moved(self, x: Node, move: Callable[[Tensor], Tensor]) -> Node:
        """The same entries in other places: `move` takes a tensor of the shape of x there."""
        if isinstance(x, Total) or x.summed is not None:
            if move(torch.zeros(x.shape)).shape != x.shape:
                raise Unknown("a sum whose entries are moved")
            return x
        return self._moved(x, move)

    def _moved(self, x: Expression, move: Callable[[Tensor], Tensor]) -> Expression:
        shape, places = x.shape, move(torch.arange(x.shape.numel(), device=self.w.device).view(x.shape))

        def coefficient(a: Value | None) -> Value | None:
            if a is None or example(a).numel() == 1:
                return a
            return self.stage.move(lambda a: move(a.expand(shape)), a)

        parts: list[Part] = []
        for part in x.parts:
            if not isinstance(part, Poly | Curve):
                raise Unknown("a product of parameters whose entries are moved")
            linear = self._moved_map(part.linear, shape, places, move)
            changes = {
                name: coefficient(getattr(part, name)) for name in ("a2", "a1", "c", "a", "b") if hasattr(part, name)
            }
            parts.append(replace(part, linear=linear, **changes))  # type: ignore[arg-type]
        return Expression(tuple(parts), coefficient(x.constant), places.shape)

    def _moved_map(
        self, linear: linear_maps.Linear, shape: torch.Size, places: Tensor, move: Callable[[Tensor], Tensor]
    ) -> linear_maps.Linear:
        if isinstance(linear, Selection):
            return Selection(move(linear.index.expand(shape)))
        in_order = places.numel() == shape.numel() and torch.equal(
            places.reshape(-1), torch.arange(places.numel(), device=places.device)
        )
        if isinstance(linear, Rows):
            if in_order:
                return linear
            rows = places.reshape(-1)
            moved = self.stage.compute(lambda F: F[rows], linear.matrix)
            return linear if linear_maps.equal(moved, linear.matrix) else Rows(moved)
        if places.shape == shape and in_order:
            return linear
        raise Unknown("a matrix product whose entries are moved")

    def matrix_product(self, A: Value, x: Node, *, left: bool) -> Expression:
        """A times x, or x times A, for a vector or a matrix x of degree 1."""
        if isinstance(x, Total) or not x.affine:
            raise Unknown("a matrix times a function of w")
        x = self._plain(self.single(x))
        (part,) = x.parts
        if not isinstance(part, Poly) or part.a1 is None:
            raise Unknown("a matrix times a function of w")
        stage, factor = self.stage, part.a1
        matmul = torch.matmul if left else lambda A, B: torch.matmul(B, A)
        constant = (
            None if x.constant is None else stage.compute(lambda A, b: matmul(A, b.expand(x.shape)), A, x.constant)
        )
        if len(x.shape) == 1 or (len(x.shape) == 2 and x.shape[1 if left else 0] == 1):  # a vector, or a matrix of one
            F = A if left else stage.move(lambda A: A.mT, A)  # (rows, entries of x)
            if example(factor).numel() > 1:
                each = stage.move(lambda a: linear_maps.flat(a, x.shape), factor)
                F, factor = stage.compute(torch.mul, F, each), self.number(1.0)
            if isinstance(part.linear, Selection):
                index = part.linear.index.expand(x.shape).reshape(-1)
                linear: linear_maps.Linear = Rows(linear_maps.columns_at(stage, F, index, self.d))
            elif isinstance(part.linear, Rows):
                linear = Rows(stage.compute(torch.matmul, F, part.linear.matrix))
            else:
                raise Unknown("a matrix times a matrix product")
            rows = example(F).shape[0]
            shape = (rows,) if len(x.shape) == 1 else (rows, 1) if left else (1, rows)
            return Expression((Poly(linear, None, factor),), constant, torch.Size(shape))
        if len(x.shape) != 2 or example(A).dim() != 2:
            raise Unknown("a product of tensors with more axes")
        if example(factor).numel() > 1:
            raise Unknown("a matrix of parameters with factors")
        if isinstance(part.linear, Selection):
            before = TwoSided(None, part.linear.index, None)
        elif isinstance(part.linear, TwoSided):
            before = part.linear
        else:
            raise Unknown("a matrix times a matrix product")
        side = before.left if left else before.right
        side = A if side is None else stage.compute(matmul, A, side)
        linear = replace(before, left=side) if left else replace(before, right=side)
        sides = (example(A).shape[0], x.shape[1]) if left else (x.shape[0], example(A).shape[1])
        shape = torch.Size(sides)
        return Expression((Poly(linear, None, factor),), constant, shape)

    def _plain(self, x: Expression) -> Expression:
        """The same; a combination of one map is that map."""
        (part,) = x.parts
        if isinstance(part.linear, Combination) and len(part.linear.pieces) == 1:
            ((a, linear),) = part.linear.pieces
            return x.but(parts=(Poly(linear, None, a),))
        return x

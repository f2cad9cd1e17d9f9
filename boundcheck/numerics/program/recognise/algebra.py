"""Sums, products and functions of expressions. An operation without a formula raises `Unknown`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise import linear_maps, matrix_rules
from boundcheck.numerics.program.recognise.elementary import Function
from boundcheck.numerics.program.recognise.expression import CrossEntropy, Expression, FunctionOfMap, Pair, Part, Poly
from boundcheck.numerics.program.recognise.linear_maps import Combination, Linear, Rows, Selection, TwoSided
from boundcheck.numerics.program.recognise.stage import Stage, Unknown, Value, example


@dataclass(frozen=True, eq=False)
class Total:
    """A single number: the sum of all entries of parts, which may have different shapes, up to a constant."""

    terms: tuple[tuple[Part, torch.Size], ...]
    shape = torch.Size(())

    @classmethod
    def of(cls, x: Node) -> Total:
        return x if isinstance(x, Total) else cls(tuple((part, x.inner) for part in x.parts))

    def plus(self, other: Total) -> Total:
        return Total(self.terms + other.terms)


@dataclass(frozen=True, eq=False)
class LinearTerm:
    """a₁∘ℓ(w)."""

    linear: Linear
    a1: Value


Node = Expression | Total


def broadcast(*shapes: torch.Size) -> torch.Size:
    """Return the shape to which tensors of these shapes broadcast."""
    return torch.Size(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def total(x: Node) -> Total:
    """Return an expression with a single entry as a `Total`."""
    if x.shape.numel() != 1:
        raise Unknown("sums over different axes")
    return Total.of(x)


class Algebra:
    """Operations on expressions of a w with d entries.

    Constants of a sum are dropped, because only its derivatives are used. With `exact`, they are kept.
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
        """Run one of the operations below by name, on expressions of λ and values of a stage."""
        result: Node
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

    # coefficients: None means 0

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
                shape = broadcast(x.shape, y.shape)
                x, y = self.spread(x, shape), self.spread(y, shape)
                return Expression(self.merged(x.parts + y.parts), self.plus(x.constant, y.constant), shape)
            if x.summed == y.summed and x.inner == y.inner and x.keep == y.keep:
                return x.but(parts=x.parts + y.parts)
            return total(x).plus(total(y))
        if isinstance(x, Total) or x.summed is not None:  # the constant of a sum is dropped
            if broadcast(x.shape, example(y).shape) != x.shape:
                raise Unknown("a sum that is repeated")
            return x
        x = self.spread(x, broadcast(x.shape, example(y).shape))
        return x.but(constant=self.plus(x.constant, y))

    def merged(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return the parts, with equal functions of equal maps merged into one part."""
        merged_parts: list[Part] = []
        for part in parts:
            for i, other in enumerate(merged_parts):
                if isinstance(part, Poly) and isinstance(other, Poly) and linear_maps.same(part.linear, other.linear):
                    merged_parts[i] = Poly(part.linear, self.plus(other.a2, part.a2), self.plus(other.a1, part.a1))
                    break
                if (
                    isinstance(part, FunctionOfMap)
                    and isinstance(other, FunctionOfMap)
                    and self._same_curve(part, other)
                ):
                    c, d = (self.number(1.0) if x is None else x for x in (other.c, part.c))
                    merged_parts[i] = replace(part, c=self.stage.add(c, d))
                    break
            else:
                merged_parts.append(part)
        return tuple(merged_parts)

    def _same_curve(self, one: FunctionOfMap, other: FunctionOfMap) -> bool:
        same = linear_maps.same(one.linear, other.linear) and one.function is other.function
        return same and linear_maps.equal(one.a, other.a) and linear_maps.equal(one.b, other.b)

    def spread(self, x: Expression, shape: torch.Size) -> Expression:
        """Return the expression expanded to a larger shape, in which its entries repeat."""
        if x.shape == shape:
            return x
        if x.summed is not None or not all(isinstance(part, Poly) for part in x.parts):
            raise Unknown("a sum that is repeated")
        return self._moved(x, lambda entries: entries.expand(shape))

    def scale(self, x: Node, factor: Value) -> Node:
        """Return x times a factor that depends only on λ."""
        if isinstance(x, Total):
            if example(factor).numel() != 1:
                raise Unknown("a sum that is repeated")
            factor = self.stage.move(lambda f: f.reshape(()), factor)
            return Total(tuple((self._scaled(part, factor), inner) for part, inner in x.terms))
        shape = broadcast(x.shape, example(factor).shape)
        x = self.spread(x, shape)
        if x.summed is not None:
            axes, keep, size = x.summed, x.keep, shape

            def with_summed_axes(f: Tensor) -> Tensor:
                f = f if f.dim() == 0 else f.expand(size)
                for axis in () if keep or f.dim() == 0 else axes:
                    f = f.unsqueeze(axis)
                return f

            factor = self.stage.move(with_summed_axes, factor)
        return x.but(
            parts=tuple(self._scaled(part, factor) for part in x.parts), constant=self.times(x.constant, factor)
        )

    def _scaled(self, part: Part, factor: Value) -> Part:
        if isinstance(part, Poly):
            return replace(part, a2=self.times(part.a2, factor), a1=self.times(part.a1, factor))
        return replace(part, c=factor if part.c is None else self.stage.mul(part.c, factor))

    def product(self, x: Node, y: Node) -> Expression:
        """Return the entrywise product of two expressions of degree 1."""
        if isinstance(x, Total) or isinstance(y, Total) or not (x.affine and y.affine):
            raise Unknown("a product of two functions of w")
        shape, is_square = broadcast(x.shape, y.shape), x is y
        x = self.single(self.spread(x, shape))
        y = x if is_square else self.single(self.spread(y, shape))
        p, q = self.slope(x), self.slope(y)
        cross = (self.times(p.a1, y.constant), self.times(q.a1, x.constant))
        constant = self.times(x.constant, y.constant)
        if linear_maps.same(p.linear, q.linear):
            part = Poly(p.linear, self.stage.mul(p.a1, q.a1), self.plus(*cross))
            return Expression((part,), constant, shape)
        parts: tuple[Part, ...] = (Pair(p.linear, q.linear, self.stage.mul(p.a1, q.a1)),)
        parts += tuple(Poly(z.linear, None, a) for z, a in zip((p, q), cross, strict=True) if a is not None)
        return Expression(parts, constant, shape)

    def slope(self, x: Expression) -> LinearTerm:
        """Return the linear map and the factor of an expression of degree 1 with a single part."""
        (part,) = x.parts
        if not isinstance(part, Poly) or part.a1 is None:
            raise Unknown("a function of a function of w")
        return LinearTerm(part.linear, part.a1)

    def single(self, x: Expression) -> Expression:
        """Return an expression of degree 1 with its linear maps combined into one."""
        parts = [part for part in x.parts if isinstance(part, Poly) and part.a1 is not None]
        if len(parts) == 1:
            return x.but(parts=tuple(parts))
        if not parts:
            raise Unknown("a value that does not depend on w")
        pieces = tuple((part.a1, part.linear) for part in parts)
        combined: Linear = Combination(pieces)
        if not any(isinstance(linear, TwoSided) for _, linear in pieces):
            combined = linear_maps.as_rows(self.stage, combined, x.shape, self.d, self.w)
        return x.but(parts=(Poly(combined, None, self.number(1.0)),))

    def apply(self, x: Node, function: Function) -> Expression:
        """Return φ of an expression of degree 1, entry by entry."""
        if isinstance(x, Total) or not x.affine:
            raise Unknown("a function of a function of w")
        x = self.single(x)
        part = self.slope(x)
        return Expression((FunctionOfMap(part.linear, function, None, part.a1, x.constant),), None, x.shape)

    def cross_entropy(self, x: Expression, classes: Tensor) -> Expression:
        x = self.single(x)
        part = self.slope(x)
        linear = Combination(((part.a1, part.linear),))
        return Expression((CrossEntropy(linear, None, x.constant, classes),), None, x.shape[:1])

    def sum(self, x: Node, axes: tuple[int, ...], keep: bool) -> Node:
        """Sum over axes, or over all axes if none are named."""
        axes = tuple(sorted(axis % max(1, len(x.shape)) for axis in axes))
        if self.exact and isinstance(x, Expression):
            return matrix_rules.sum_of_rows(self, x, axes or tuple(range(len(x.shape))), keep)
        if isinstance(x, Total) or not axes or len(axes) == len(x.shape):
            if keep and len(x.shape):
                raise Unknown("a sum with axes")
            return Total.of(x)
        if x.summed is not None:
            raise Unknown("a sum of sums")
        return x.but(summed=axes, keep=keep, constant=None)

    def moved(self, x: Node, move: Callable[[Tensor], Tensor]) -> Node:
        """Return an expression with moved entries. `move` moves the entries of a tensor of the shape of x."""
        if not isinstance(x, Total) and x.summed is None:
            return self._moved(x, move)
        places = torch.arange(x.shape.numel(), device=self.w.device).view(x.shape)
        if move(places).shape != x.shape or not torch.equal(move(places), places):
            raise Unknown("a sum whose entries are moved")
        return x

    def _moved(self, x: Expression, move: Callable[[Tensor], Tensor]) -> Expression:
        shape, places = x.shape, move(torch.arange(x.shape.numel(), device=self.w.device).view(x.shape))

        def coefficient(a: Value | None) -> Value | None:
            if a is None or example(a).numel() == 1:
                return a
            return self.stage.move(lambda a: move(a.expand(shape)), a)

        parts: list[Part] = []
        for part in x.parts:
            if not isinstance(part, Poly | FunctionOfMap):
                raise Unknown("a product of parameters whose entries are moved")
            linear = self._moved_map(part.linear, shape, places, move)
            changes = {
                name: coefficient(getattr(part, name)) for name in ("a2", "a1", "c", "a", "b") if hasattr(part, name)
            }
            parts.append(replace(part, linear=linear, **changes))  # type: ignore[arg-type]
        return Expression(tuple(parts), coefficient(x.constant), places.shape)

    def _moved_map(self, linear: Linear, shape: torch.Size, places: Tensor, move: Callable[[Tensor], Tensor]) -> Linear:
        if isinstance(linear, Selection):
            return Selection(move(linear.index.expand(shape)))
        in_order = places.numel() == shape.numel() and torch.equal(
            places.reshape(-1), torch.arange(places.numel(), device=places.device)
        )
        if isinstance(linear, Rows):
            if in_order:
                return linear
            rows = places.reshape(-1)
            matrix = self.stage.compute(lambda F: F[rows], linear.matrix)
            return linear if linear_maps.equal(matrix, linear.matrix) else Rows(matrix)
        if places.shape == shape and in_order:
            return linear
        raise Unknown("a matrix product whose entries are moved")

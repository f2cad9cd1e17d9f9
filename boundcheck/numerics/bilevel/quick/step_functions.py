"""Φ and ∂₁Φᵀv of a gradient step, as functions of w and the prepared values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.formulas import D1, DataMatrix
from boundcheck.numerics.bilevel.quick import matrix_maps
from boundcheck.numerics.bilevel.quick.gradient_step import FunctionPart, GradientStep, MatrixSquares, Scores
from boundcheck.numerics.bilevel.quick.slots import ReadFor, Slots
from boundcheck.numerics.program.recognise.stage import Value, example

Add = Callable[[Tensor, Tensor, Any], Tensor]  # (total, w, ready) ↦ total plus a part of Φ


def phi(step: GradientStep, d: int, slots: Slots) -> Callable[[Tensor, Any], Tensor]:
    """Return the function Φ."""
    start = _start(step, slots)
    parts: list[Add] = [_squares(part.U, part.a, slots) for part in step.squares if part.a is not None]
    parts += [_bend(part, slots) for part in step.bends]
    parts += [_scores(part, d, slots) for part in step.scores]
    parts += [_matrix_squares(part, d, slots) for part in step.matrix_squares]
    if step.Q is not None:
        Q = slots.read(step.Q)
        parts.append(lambda total, w, ready: torch.addmv(total, Q(ready), w))
    if not parts:
        return start
    if len(parts) == 1:
        (part,) = parts
        return lambda w, ready: part(start(w, ready), w, ready)

    def phi_at(w: Tensor, ready: Any) -> Tensor:
        total = start(w, ready)
        for part in parts:
            total = part(total, w, ready)
        return total

    return phi_at


def _start(step: GradientStep, slots: Slots) -> Callable[[Tensor, Any], Tensor]:
    """Return w ↦ diagonal∘w + shift."""
    if step.diagonal is None and step.shift is None:
        return lambda w, ready: w
    if step.shift is None and step.diagonal is not None:
        diagonal = slots.read(step.diagonal)
        return lambda w, ready: diagonal(ready) * w
    if step.diagonal is None and step.shift is not None:
        shift = slots.read(step.shift)
        return lambda w, ready: w + shift(ready)
    if step.diagonal is not None and step.shift is not None:
        diagonal, shift = slots.read(step.diagonal), slots.read(step.shift)
        return lambda w, ready: torch.addcmul(shift(ready), diagonal(ready), w)
    raise AssertionError


def _number(value: Value) -> float | None:
    """Return a constant number, which can be a factor in a matrix product; None for other values."""
    return float(value) if isinstance(value, Tensor) and value.dim() == 0 else None


def _product_T(U: Value, a: Value, slots: Slots) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return (total, u) ↦ total + Uᵀ(a∘u)."""
    factor = _number(a)
    if isinstance(U, Tensor):
        U_T = U.mT
        if factor is not None:
            return lambda total, u, ready: torch.addmv(total, U_T, u, alpha=factor)
        each = slots.read(a)
        return lambda total, u, ready: torch.addmv(total, U_T, each(ready) * u)
    of_ready, each = slots.read(U), slots.read(a)
    if factor is not None:
        return lambda total, u, ready: torch.addmv(total, of_ready(ready).mT, u, alpha=factor)
    return lambda total, u, ready: torch.addmv(total, of_ready(ready).mT, each(ready) * u)


def _squares(matrix: Value, a: Value, slots: Slots) -> Add:
    U, product_T = slots.read(matrix), _product_T(matrix, a, slots)
    return lambda total, w, ready: product_T(total, torch.mv(U(ready), w), ready)


def _bend(part: FunctionPart, slots: Slots) -> Add:
    slope = part.function.slope
    b = None if part.b is None else slots.read(part.b)
    if part.U is not None:
        U, product_T = slots.read(part.U), _product_T(part.U, part.c, slots)
        if b is None:
            return lambda total, w, ready: product_T(total, slope(torch.mv(U(ready), w)), ready)
        return lambda total, w, ready: product_T(total, slope(torch.mv(U(ready), w) + b(ready)), ready)
    a, c, index = None if part.a is None else slots.read(part.a), slots.read(part.c), part.index

    def add(total: Tensor, w: Tensor, ready: Any) -> Tensor:
        u = w if index is None else w[index]
        u = u if a is None else a(ready) * u
        u = u if b is None else u + b(ready)
        change = c(ready) * slope(u)
        return total + change if index is None else total.index_add(0, index, change)

    return add


def _scores(part: Scores, d: int, slots: Slots) -> Add:
    forward, back = matrix_maps.forward(part.linear, part.shape, slots), matrix_maps.transposed(part.linear, d, slots)
    b, c, classes = None if part.b is None else slots.read(part.b), slots.read(part.c), part.classes

    def add(total: Tensor, w: Tensor, ready: Any) -> Tensor:
        u = forward(w, ready)
        u = u if b is None else u + b(ready)
        return total + back(c(ready) * (torch.softmax(u, 1) - classes), ready)

    return add


def _matrix_squares(part: MatrixSquares, d: int, slots: Slots) -> Add:
    forward, back = matrix_maps.forward(part.linear, part.shape, slots), matrix_maps.transposed(part.linear, d, slots)
    a = slots.read(part.a)
    return lambda total, w, ready: total + back(a(ready) * forward(w, ready), ready)


@dataclass(frozen=True, eq=False)
class SquareMatrix:
    """The matrix diag(diagonal) + Q + rest for each of several columns, with a symmetric Q."""

    Q: Tensor  # (d, d), or with the axes of the columns at the end
    rest: Callable[[Tensor], Tensor]

    def __call__(self, v: Tensor) -> Tensor:
        if v.dim() == 1:
            return torch.addmv(self.rest(v), self.Q, v)
        product = torch.tensordot(self.Q, v, 1) if self.Q.dim() == 2 else torch.einsum("ij...,j...->i...", self.Q, v)
        return torch.add(self.rest(v), product)


def d1phi_T(step: GradientStep, slots: Slots) -> D1 | None:
    """Return v ↦ ∂₁Φᵀv for columns; None if a part has no formula."""
    if step.scores or step.matrix_squares:
        return None
    data: list[FunctionPart] = [part for part in step.bends if part.U is not None]
    alone = [part for part in step.bends if part.U is None]
    if any(part.index is not None for part in alone) or (alone and (data or step.squares)):
        return None  # a `DataMatrix` has the same `diagonal` at all points
    squares = [part for part in step.squares if part.a is not None]
    matrices: list[Value] = [part.U for part in squares] + [part.U for part in data if part.U is not None]
    weights: list[ReadFor] = [slots.read_for(part.a) for part in squares if part.a is not None]
    weights += [_second(part, slots) for part in data]
    diagonal = None if step.diagonal is None else slots.read_for(step.diagonal)
    curved_diagonal = [_second(part, slots) for part in alone]
    Q = None if step.Q is None else slots.read_for(step.Q)
    U = _stacked(matrices, slots) if matrices else None
    counts = [len(example(matrix)) for matrix in matrices]

    def d1phi_T_at(w: Tensor, ready: Any) -> Callable[[Tensor], Tensor]:
        total = w.new_ones(()) if diagonal is None else diagonal(ready, w)
        for part in curved_diagonal:
            total = total + part(ready, w)
        product: Callable[[Tensor], Tensor]
        if U is not None:
            values = [weight(ready, w) for weight in weights]
            product = DataMatrix(U(ready, w), values[0] if len(values) == 1 else _joined(values, counts, w), total)
        else:
            product = lambda v: total * v  # noqa: E731
        return product if Q is None else SquareMatrix(Q(ready, w), product)

    return d1phi_T_at


def _stacked(matrices: list[Value], slots: Slots) -> ReadFor:
    """Return all rows of data. If no matrix varies, they are joined only once."""
    if all(isinstance(matrix, Tensor) for matrix in matrices):
        together = torch.cat([example(matrix) for matrix in matrices]) if len(matrices) > 1 else example(matrices[0])
        return lambda ready, w: together
    if len(matrices) == 1:
        return slots.read_for(matrices[0])
    reads = [slots.read_for(matrix) for matrix in matrices]

    def stacked(ready: Any, w: Tensor) -> Tensor:
        parts = [read(ready, w) for read in reads]
        axes = max((part.shape[2:] for part in parts), key=lambda shape: shape.numel())
        return torch.cat([part.expand(*part.shape[:2], *axes) for part in parts])

    return stacked


def _joined(values: list[Tensor], counts: list[int], w: Tensor) -> Tensor:
    return torch.cat([
        (value if value.dim() == w.dim() else value[None]).expand(count, *w.shape[1:])
        for value, count in zip(values, counts, strict=True)
    ])  # fmt: skip


def _second(part: FunctionPart, slots: Slots) -> ReadFor:
    """Return the second derivatives, with the axes of columns w."""
    scale, derivatives = slots.read_for(part.scale), part.function.all
    b, a = (None if x is None else slots.read_for(x) for x in (part.b, part.a))
    matrix, shared = None if part.U is None else slots.read(part.U), isinstance(part.U, Tensor)

    def second(ready: Any, w: Tensor) -> Tensor:
        if matrix is None:
            u = w if a is None else a(ready, w) * w
        elif shared:
            u = torch.tensordot(matrix(ready), w, 1)
        else:
            u = torch.einsum("md...,d...->m...", matrix(ready), w)
        return scale(ready, w) * derivatives(u if b is None else u + b(ready, w))[2]

    return second

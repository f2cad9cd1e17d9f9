"""The parts of Φ = w − α∇₁ℓ for a loss that is a sum of functions of linear maps of w, with their coefficients.

With rows U of data, Φ(w) = diagonal∘w + shift + Σ Uᵀ(a∘Uw) + Σ Uᵀ(c∘φ'(Uw + b)) + Qw + …. All coefficients contain the
factor −α.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise import linear_maps
from boundcheck.numerics.program.recognise.algebra import Algebra, Total
from boundcheck.numerics.program.recognise.elementary import Function
from boundcheck.numerics.program.recognise.expression import CrossEntropy, FunctionOfMap, Pair, Part, Poly
from boundcheck.numerics.program.recognise.linear_maps import Combination, Linear, Rows, Selection, TwoSided, flat
from boundcheck.numerics.program.recognise.stage import Unknown, Value

MOST_SQUARE = 2000  # the largest d for which the d × d matrix of a quadratic form is formed


@dataclass(frozen=True, eq=False)
class Squares:
    """The part Uᵀ(a∘Uw + b). The term Uᵀb is also in the shift."""

    U: Value
    a: Value | None  # None is 0
    b: Value | None = None  # None is 0


@dataclass(frozen=True, eq=False)
class FunctionPart:
    """The part Uᵀ(c∘φ'(Uw + b)). Without U, it uses the entries `index` of w in place of Uw, or all of w."""

    U: Value | None
    index: Tensor | None
    function: Function
    c: Value
    scale: Value  # the factor of φ'' in the second derivative: c, or c∘a² for entries of w
    a: Value | None  # the factor of the entries of w
    b: Value | None


@dataclass(frozen=True, eq=False)
class Scores:
    """The part ℓᵀ(c∘(softmax(u) − classes)) with u = ℓ(w) + b."""

    linear: Combination
    shape: torch.Size
    c: Value
    b: Value | None
    classes: Tensor


@dataclass(frozen=True, eq=False)
class MatrixSquares:
    """The part ℓᵀ(a∘ℓ(w)) for matrix products ℓ."""

    linear: Combination
    shape: torch.Size
    a: Value


@dataclass(eq=False)
class GradientStep:
    """The parts of Φ. `own_shift` is the part of `shift` without data. None means 1 for `diagonal`, else 0."""

    diagonal: Value | None = None
    shift: Value | None = None
    own_shift: Value | None = None
    Q: Value | None = None
    squares: list[Squares] = field(default_factory=list)
    bends: list[FunctionPart] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)
    matrix_squares: list[MatrixSquares] = field(default_factory=list)
    matrix_shifts: list[Value] = field(default_factory=list)  # parts of `shift` by matrix products


class Assembly:
    """Builds a gradient step from the terms of a loss."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra, self.stage, self.d, self.w = algebra, algebra.stage, algebra.d, algebra.w
        self.step = GradientStep()
        self.minus_alpha = self.stage.mul(self.stage.alpha, self.stage.number(-1))
        self._h: Value | None = None  # the coefficient of w in −α∇₁ℓ

    def of(self, loss: Total) -> GradientStep:
        for part, shape in loss.terms:
            self._add(part, shape)
        if self._h is not None:
            self.step.diagonal = self.stage.add(self._h, self.stage.number(1))
        return self.step

    def _add(self, part: Part, shape: torch.Size) -> None:
        if isinstance(part, Poly):
            a = None if part.a2 is None else self._times_step(part.a2, 2.0)
            b = None if part.a1 is None else self._times_step(part.a1)
            if isinstance(part.linear, Rows):
                self._add_rows(part.linear.matrix, a, b, shape)
            elif isinstance(part.linear, Selection):
                self._add_entries(part.linear, a, b, shape)
            else:
                self._add_matrices(_combination(part.linear), a, b, shape)
        elif isinstance(part, FunctionOfMap):
            self._add_bend(part, shape)
        elif isinstance(part, Pair):
            self._add_pair(part, shape)
        else:
            self._add_scores(part, shape)

    def _add_rows(self, U: Value, a: Value | None, b: Value | None, shape: torch.Size) -> None:
        a, b = (None if x is None else self.stage.move(lambda x: flat(x, shape), x) for x in (a, b))
        self.step.squares.append(Squares(U, a, b))
        if b is not None:
            shift = self.stage.compute(lambda F, b: F.mT @ b.expand(len(F)), U, b)
            self.step.shift = self.algebra.plus(self.step.shift, shift)

    def _add_matrices(self, linear: Combination, a: Value | None, b: Value | None, shape: torch.Size) -> None:
        if a is not None:
            self.step.matrix_squares.append(MatrixSquares(linear, shape, a))
        for factor, piece in linear.pieces if b is not None else ():
            if not isinstance(piece, TwoSided):
                raise Unknown("a linear function of several maps")
            index, d = piece.index.reshape(-1), self.d

            def shift(b: Tensor, factor: Tensor | None, left: Tensor | None, right: Tensor | None) -> Tensor:
                u = b.expand(shape) if factor is None else factor * b.expand(shape)
                u = u if left is None else left.mT @ u
                u = u if right is None else u @ right.mT
                return u.new_zeros(d).index_add(0, index, u.reshape(-1))  # noqa: B023

            value = self.stage.compute(shift, b, factor, piece.left, piece.right)
            self.step.shift = self.algebra.plus(self.step.shift, value)
            self.step.matrix_shifts.append(value)

    def _add_entries(self, linear: Selection, a: Value | None, b: Value | None, shape: torch.Size) -> None:
        if a is not None:
            self._h = self.algebra.plus(self._h, self._scattered(a, linear, shape))
        if b is not None:
            shift = self._scattered(b, linear, shape)
            self.step.shift = self.algebra.plus(self.step.shift, shift)
            self.step.own_shift = self.algebra.plus(self.step.own_shift, shift)

    def _times_step(self, a: Value | None, factor: float = 1.0) -> Value:
        coefficient = self.minus_alpha if a is None else self.stage.mul(self.minus_alpha, a)
        return coefficient if factor == 1 else self.stage.mul(coefficient, self.stage.number(factor))

    def _scattered(self, a: Value, selection: Selection, shape: torch.Size) -> Value:
        """Expand coefficients of selected entries to all entries of w; a number for all entries remains a number."""
        if selection.is_all_of(self.d):
            return self.stage.move(lambda a: flat(a, shape), a)
        index, d = selection.index.expand(shape).reshape(-1), self.d
        if int(torch.bincount(index).max()) > 1:
            result: Value = self.stage.compute(
                lambda a: a.new_zeros(d).index_add(0, index, a.expand(shape).reshape(-1)), a
            )
            return result
        places = torch.full((d,), -1, device=index.device)
        places[index] = torch.arange(len(index), device=index.device)
        return self.stage.spread(a, shape, places)

    def _add_bend(self, part: FunctionOfMap, shape: torch.Size) -> None:
        stage = self.stage
        c = stage.move(lambda c: flat(c, shape), self._times_step(part.c))
        b = None if part.b is None else stage.move(lambda b: flat(b, shape), part.b)
        a = stage.move(lambda a: flat(a, shape), part.a)
        linear = part.linear
        if isinstance(linear, Selection):
            index = None if linear.is_all_of(self.d) else linear.index.expand(shape).reshape(-1)
            slope = stage.mul(c, a)
            self.step.bends.append(FunctionPart(None, index, part.function, slope, stage.mul(slope, a), a, b))
        elif isinstance(linear, Rows):
            U = stage.compute(lambda a, F: a * F if a.dim() == 0 else a[:, None] * F, a, linear.matrix)
            self.step.bends.append(FunctionPart(U, None, part.function, c, c, None, b))
        else:
            raise Unknown("a function of a matrix product")

    def _add_pair(self, part: Pair, shape: torch.Size) -> None:
        if self.d > MOST_SQUARE:
            raise Unknown(f"a quadratic form of {self.d} parameters")
        a = self._times_step(part.c)
        F, G = (self._matrix(linear, shape) for linear in (part.linear, part.other))

        if G is None:
            F, G = G, F
        if G is None:
            raise Unknown("a product of parameters")
        each = self.stage.move(lambda a: flat(a, shape) if a.numel() == 1 else flat(a, shape)[:, None], a)
        half = self.stage.mul(each, G)
        half = half if F is None else self.stage.compute(lambda F, G: F.mT @ G, F, half)
        Q = self.stage.add(half, self.stage.move(lambda x: x.mT, half))
        self.step.Q = self.algebra.plus(self.step.Q, Q)

    def _matrix(self, linear: Linear, shape: torch.Size) -> Value | None:
        """Return the matrix of a map; None for the identity."""
        if isinstance(linear, Selection) and linear.is_all_of(self.d):
            return None
        return linear_maps.as_rows(self.stage, linear, shape, self.d, self.w).matrix

    def _add_scores(self, part: CrossEntropy, shape: torch.Size) -> None:
        c = self.stage.move(lambda c: c if c.dim() == 0 else c.expand(shape)[:, None], self._times_step(part.c))
        size = torch.Size((shape[0], part.classes.shape[1]))
        self.step.scores.append(Scores(_combination(part.linear), size, c, part.b, part.classes))


def _combination(linear: Linear) -> Combination:
    return linear if isinstance(linear, Combination) else Combination(((None, linear),))

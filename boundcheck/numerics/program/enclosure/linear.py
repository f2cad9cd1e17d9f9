"""The rule for operations y = f(x) + b that are linear in all tensors that vary.

f is linear with known coefficients. f maps derivatives to derivatives. |f|, which has the absolute values of the
coefficients, maps bounds to bounds. The rounding error of a sum of n terms is at most γ_n times the sum of their
absolute values, so |f| bounds rounding errors too. As an operator, ‖f‖² is at most the largest row sum times the
largest column sum of |f|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.curvature_form import Curvature
from boundcheck.numerics.program.enclosure.forms import Trilinear
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, around, norm
from boundcheck.numerics.program.enclosure.sparse_derivative import (
    LARGE,
    Coefficients,
    Sparse,
    kept,
    of_moves,
    without_zeros,
)
from boundcheck.numerics.program.enclosure.value import PAIRS, SLOTS, Bend, Pair, Slope, Term, Triple, Value, rounding
from boundcheck.numerics.program.rounding_rules.ball import TINY

Function = Callable[..., Tensor]
FEW = 6  # up to this number of columns, f is applied to them one by one


@dataclass(frozen=True, eq=False)
class Linear:
    """y = f(inputs) + offset. `size` is |f|. `moves` is True if f only moves numbers, which has no rounding."""

    inputs: tuple[Value, ...]
    f: Function
    size: Function
    offset: Tensor | None
    moves: bool
    terms: int  # length of the longest sum in f

    def backward(self, adjoint: Interval) -> Iterator[tuple[Value, Interval]]:
        shapes = [x.shape for x in self.inputs]
        loss = rounding(max(adjoint.mid.numel(), self.terms))
        mids = transposed(self.f, shapes, adjoint.mid)
        rads = transposed(self.size, shapes, adjoint.rad + loss * adjoint.mid.abs())
        for x, mid, rad in zip(self.inputs, mids, rads, strict=True):
            yield x, around(mid, rad * (UP + loss))

    def curvature(self, adjoint: Interval, pair: Pair) -> Iterator[Curvature]:
        return iter(())

    def third(self, adjoint: Interval, slots: Triple) -> Iterator[Trilinear]:
        return iter(())

    def bend(self, pair: Pair) -> Bend:
        terms: list[Term] = []
        rest = [torch.zeros(x.shape, dtype=torch.float64) for x in self.inputs]
        rest_norm, loss = 0.0, rounding(self.terms)
        bends = [x.bend(pair) for x in self.inputs]
        has_most = any(bend is not None and math.isfinite(bend.most) for bend in bends)
        most = 0.0 if has_most else math.inf
        for i, (x, bend) in enumerate(zip(self.inputs, bends, strict=True)):
            if bend is None:
                continue
            if has_most:
                most += self.norm_of(i) * bend.norm(x.shape) * UP
            error = torch.zeros_like(rest[i])
            for term in bend.terms:
                terms.append(Term(term.c, term.A, term.B, torch.vmap(self._of(i))(term.matrix(x.shape))))
                if not self.moves:
                    error = error + loss * term.sizes(x.shape)
            rest[i] = bend.rest + error
            rest_norm += self.norm_of(i) * (bend.rest_norm + norm(error)) * UP
        whole = self.size(*rest) * (UP + loss)
        return Bend(tuple(terms), whole, min(norm(whole), rest_norm * UP), most)

    def _of(self, i: int, size: bool = False) -> Callable[[Tensor], Tensor]:
        """Return f, or |f| if `size`, as a function of its i-th input alone."""
        zeros = [torch.zeros(x.shape, dtype=torch.float64) for x in self.inputs]
        f = self.size if size else self.f
        return lambda x: f(*(x if j == i else zero for j, zero in enumerate(zeros)))

    def norm_of(self, i: int) -> float:
        """Return an upper bound of the norm of f as an operator on its i-th input."""
        size = self._of(i, size=True)
        ones = torch.ones(self.inputs[i].shape, dtype=torch.float64)
        by_rows, back = torch.func.vjp(size, ones)[:2]
        by_columns = back(torch.ones_like(by_rows))[0]
        return math.sqrt(float(by_rows.max()) * float(by_columns.max())) * (UP + rounding(self.terms))


def linear_value(
    inputs: Sequence[Value], f: Function, size: Function, offset: Tensor | None, *, moves: bool, terms: int,
    coefficients: Coefficients | None = None,
) -> Value:  # fmt: skip
    """Return the enclosures of f(inputs) + offset. For one input, `coefficients` may give the matrix of f."""
    inputs = tuple(inputs)
    zeros = [torch.zeros(x.shape, dtype=torch.float64) for x in inputs]
    shape = f(*zeros).shape
    loss = 0.0 if moves else rounding(terms)
    b = torch.zeros((), dtype=torch.float64) if offset is None else offset

    def enclosed(boxes: Sequence[Interval]) -> Interval:
        if moves and offset is None:
            return Interval(f(*(x.lo for x in boxes)), f(*(x.hi for x in boxes)))
        mid = f(*(x.mid for x in boxes))
        rad = size(*(x.rad + loss * x.mid.abs() + (0.0 if moves else TINY) for x in boxes)) * (UP + loss)
        return around(mid + b, rad + 2.0**-52 * (mid.abs() + b.abs()))

    slopes: dict[str, Slope] = {}
    for slot in SLOTS:
        parts = [x.slopes.get(slot) for x in inputs]
        if all(part is None for part in parts):
            continue
        images = [
            image(part, _alone(f, zeros, i), shape, coefficients, moves)
            for i, part in enumerate(parts)
            if part is not None
        ]
        F = sum_of(images)
        loss_of_sum = loss + (rounding(len(inputs)) if len([p for p in parts if p is not None]) > 1 else 0.0)
        norms = size(*(z if p is None else p.norms for p, z in zip(parts, zeros, strict=True)))
        error = loss_of_sum * norms
        slip = size(*(z if p is None else p.slip for p, z in zip(parts, zeros, strict=True))) * (UP + loss) + error
        rows = size(*(z if p is None else p.rows for p, z in zip(parts, zeros, strict=True))) * (UP + loss) + error
        slopes[slot] = Slope(F, slip, rows)
        if moves:  # moved norms are the norms of the moved rows
            vars(slopes[slot])["norms"] = norms
    bends = {}
    for pair in PAIRS:
        if any(pair in x.bends for x in inputs):
            bends[pair] = size(*(x.bends.get(pair, z) for x, z in zip(inputs, zeros, strict=True))) * (UP + loss)
    rule = Linear(inputs, f, size, offset, moves, terms)
    centre = enclosed([x.centre for x in inputs])
    box = centre if all(x.at_point for x in inputs) else enclosed([x.box for x in inputs])
    return Value(centre, box, slopes, bends, rule)


def transposed(f: Function, shapes: Sequence[torch.Size], cotangent: Tensor) -> tuple[Tensor, ...]:
    """Apply the transpose of a linear function of tensors with these shapes to a cotangent."""
    with torch.enable_grad():
        zeros = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
        y = f(*zeros)
        if not y.requires_grad:
            return tuple(torch.zeros(shape, dtype=torch.float64) for shape in shapes)
        return torch.autograd.grad(y, zeros, cotangent, allow_unused=True, materialize_grads=True)


def _alone(f: Function, zeros: Sequence[Tensor], i: int) -> Callable[[Tensor], Tensor]:
    """Return f as a function of its i-th input."""
    return lambda x: f(*(x if j == i else zero for j, zero in enumerate(zeros)))


def image(
    part: Slope, f: Callable[[Tensor], Tensor], shape: torch.Size, coefficients: Coefficients | None, moves: bool
) -> Tensor | Sparse:
    """Return the derivative of f(x) from the derivative of x; as a sparse matrix if it is large with many zeros."""
    large = part.k * shape.numel() >= LARGE and (moves or coefficients is not None)
    sparse = part.held if isinstance(part.held, Sparse) else without_zeros(part.held) if large else None
    if sparse is not None:
        M = of_moves(f, sparse.shape) if moves else None if coefficients is None else coefficients()
        if M is not None:
            return kept(sparse.moved(M, shape))
    columns = part.F
    if 0 < part.k <= FEW:  # faster one by one
        return torch.stack([f(column) for column in columns]).reshape(part.k, *shape)
    return torch.vmap(f)(columns).reshape(part.k, *shape)


def sum_of(images: Sequence[Tensor | Sparse]) -> Tensor | Sparse:
    """Return the sum of several derivatives of one tensor."""
    if len(images) == 1:
        return images[0]
    sparse = [image for image in images if isinstance(image, Sparse)]
    if len(sparse) == len(images):
        return kept(Sparse(sum((image.rows for image in sparse[1:]), sparse[0].rows), sparse[0].shape))
    dense = [image.formed() if isinstance(image, Sparse) else image for image in images]
    return sum(dense[1:], dense[0])

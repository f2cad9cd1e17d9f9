"""Formulas for ∂₂Φᵀv of a gradient step and ∇₂E of an outer loss, if their dependence on λ has a known form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import CACHE
from boundcheck.numerics.bilevel.formulas import D2, D2Outer, Diagonal, FullMatrices, OuterProducts
from boundcheck.numerics.bilevel.quick.gradient_step import GradientStep, Squares
from boundcheck.numerics.bilevel.quick.lam_slopes import Entrywise, Jacobian, entrywise, jacobian, left_factor, varies
from boundcheck.numerics.bilevel.quick.slots import Read, Slots
from boundcheck.numerics.program.recognise.algebra import Total
from boundcheck.numerics.program.recognise.expression import Part, Poly
from boundcheck.numerics.program.recognise.linear_maps import Rows, flat
from boundcheck.numerics.program.recognise.stage import Stage, Value, example

MOST_ENTRIES = 50_000  # the most entries of ∂₂Φ, which is formed at every point


def d2phi_T(step: GradientStep, stage: Stage, d: int, slots: Slots) -> D2 | None:
    """Return v ↦ ∂₂Φᵀv for points of one λ; None if no formula is known."""
    if step.scores or step.matrix_squares or any(varies(x) for x in (stage.alpha, *step.matrix_shifts)):
        return None
    if any(varies(x) for bend in step.bends for x in (bend.U, bend.c, bend.a, bend.b)):
        return None
    data = [part for part in step.squares if varies(part.U)]
    if any(varies(x) for part in step.squares for x in (part.a, part.b)):
        return None
    of_lam_alone = [x for x in (step.diagonal, step.own_shift) if varies(x)]
    if data:
        return (
            _outer_products(data, stage, slots) if len(data) == 1 and not of_lam_alone and not varies(step.Q) else None
        )
    if not of_lam_alone and not varies(step.Q):
        return None
    return _entries(step, stage, d, slots) or _matrices(step, stage, d, slots)


@dataclass(frozen=True, eq=False)
class Scattered:
    """The map v ↦ Σ entries∘v, where each product is added to one entry of λ."""

    entries: Tensor  # (rows, d)
    index: Tensor  # (d,)
    n: int

    def __call__(self, v: Tensor) -> Tensor:
        products = v * self.entries[:, None]
        return products.new_zeros(*products.shape[:-1], self.n).index_add(-1, self.index, products)


def _entries(step: GradientStep, stage: Stage, d: int, slots: Slots) -> D2 | None:
    """Return the formula if every entry of Φ depends on one entry of λ, through `diagonal` and `shift`."""
    if varies(step.Q):
        return None
    known: list[Entrywise | None] = [
        entrywise(stage, x, d) if varies(x) else None for x in (step.diagonal, step.own_shift)
    ]
    if any(varies(x) and each is None for x, each in zip((step.diagonal, step.own_shift), known, strict=True)):
        return None
    indices = [each.index for each in known if each is not None]
    if len(indices) == 2 and bool(((indices[0] != indices[1]) & (indices[0] >= 0) & (indices[1] >= 0)).any()):
        return None
    index = indices[0] if len(indices) == 1 else torch.maximum(*indices)
    of_kept, of_shift = (None if each is None else slots.read(each.slope, fixed=True) for each in known)
    n = stage.lam.example.numel()
    alone = n == d and torch.equal(index, torch.arange(d, device=index.device))
    index = index.clamp(min=0)

    def d2phi_T_at(w: Tensor, ready: Any) -> Callable[[Tensor], Tensor]:
        entries = torch.zeros_like(w) if of_kept is None else of_kept(ready) * w
        if of_shift is not None:
            entries = entries + of_shift(ready)
        return Diagonal(entries) if alone else Scattered(entries, index, n)

    return d2phi_T_at


def _matrices(step: GradientStep, stage: Stage, d: int, slots: Slots) -> D2 | None:
    """Return the formula with the derivatives of `diagonal`, `shift` and Q by λ as matrices."""
    if stage.lam.example.numel() * d > MOST_ENTRIES:
        return None
    reads: list[Read | None] = []
    for value, count in ((step.diagonal, d), (step.own_shift, d), (step.Q, d * d)):
        known = jacobian(stage, value, count) if varies(value) else None
        if varies(value) and known is None:
            return None
        reads.append(None if known is None else _matrix(known, slots))
    of_kept, of_shift, of_Q = reads
    n = stage.lam.example.numel()

    def d2phi_T_at(w: Tensor, ready: Any) -> FullMatrices:
        total = w.new_zeros(len(w), n, d)
        if of_Q is not None:
            total = (w @ of_Q(ready).view(n * d, d).mT).view(len(w), n, d)
        if of_kept is not None:
            total = total + of_kept(ready) * w[:, None]
        if of_shift is not None:
            total = total + of_shift(ready)
        return FullMatrices(total)

    return d2phi_T_at


def _matrix(known: Jacobian, slots: Slots) -> Read:
    """Return a function that evaluates the transposed derivative by λ at one λ."""
    parts = [(slots.read(slope, fixed=True), matrix) for slope, matrix in known.parts]
    constant = known.constant

    def matrix_at(ready: Any) -> Tensor:
        terms = [slope(ready) * matrix for slope, matrix in parts]
        terms += [] if constant is None else [constant]
        return terms[0] if len(terms) == 1 else sum(terms[1:], terms[0])

    return matrix_at


def _outer_products(data: list[Squares], stage: Stage, slots: Slots) -> D2 | None:
    """Return ∂₂Φᵀv = Xᵀ(a∘Uw + b)vᵀ + Xᵀ(a∘Uv)wᵀ for a matrix λ = H and data XH; None for another form."""
    (part,) = data
    X = left_factor(stage, part.U)
    if X is None or not isinstance(X, Tensor) or part.a is None:
        return None
    U, a = slots.read(part.U), slots.read(part.a)
    b = None if part.b is None else slots.read(part.b)

    def d2phi_T_at(w: Tensor, ready: Any) -> OuterProducts:
        U_T, scale = U(ready).mT, a(ready)
        U_T = scale * U_T
        residual = w @ U_T if b is None else w @ U_T + b(ready)
        return OuterProducts(residual @ X, w, lambda v: (v @ U_T) @ X)

    return d2phi_T_at


def d2outer(loss: Total, stage: Stage, d: int, slots: Slots) -> D2Outer | None:
    """Return ∇₂E for points of one λ, if E depends on λ only through the data of squares; otherwise None."""
    terms: list[Callable[[Tensor, Any], Tensor]] = []
    for part, shape in loss.terms:
        if not _varies(part):
            continue
        term = _of_squares(part, shape, stage, d, slots)
        if term is None:
            return None
        terms.append(term)
    if not terms:
        return None
    return lambda w, ready: terms[0](w, ready) if len(terms) == 1 else sum(term(w, ready) for term in terms)  # type: ignore[return-value]


def _varies(part: Part) -> bool:
    if not isinstance(part, Poly) or not isinstance(part.linear, Rows):
        names = ("linear", "other", "a2", "a1", "c", "a", "b")
        return not isinstance(part, Poly) or any(varies(getattr(part, name, None)) for name in names)
    return any(varies(x) for x in (part.linear.matrix, part.a2, part.a1))


def _of_squares(
    part: Part, shape: torch.Size, stage: Stage, d: int, slots: Slots
) -> Callable[[Tensor, Any], Tensor] | None:
    if not isinstance(part, Poly) or not isinstance(part.linear, Rows) or varies(part.a2) or varies(part.a1):
        return None
    F: Value = part.linear.matrix
    reads = [None if x is None else slots.read(stage.move(lambda x: flat(x, shape), x)) for x in (part.a2, part.a1)]
    of_F, (a2, a1) = slots.read(F), reads
    count = len(example(F))

    def by_rows(w: Tensor, ready: Any) -> Tensor:
        g = 2 * a2(ready) * (w @ of_F(ready).mT) if a2 is not None else w.new_zeros(len(w), count)
        return g if a1 is None else g + a1(ready)

    X = left_factor(stage, F)
    if isinstance(X, Tensor):
        return lambda w, ready: ((by_rows(w, ready) @ X)[:, :, None] * w[:, None]).flatten(1)
    known = jacobian(stage, F, count * d)
    if known is None:
        return None
    J_T, at_once = _matrix(known, slots), max(1, CACHE // (count * d))

    def by_lam(w: Tensor, ready: Any) -> Tensor:
        J = J_T(ready).mT
        parts = [(by_rows(some, ready)[:, :, None] * some[:, None]).flatten(1) @ J for some in torch.split(w, at_once)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    return by_lam

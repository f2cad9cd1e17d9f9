"""The rule for products of two tensors that both vary: y = B(p, q), entry by entry, of matrices, or a convolution.

B is linear in each factor with coefficients 0 and 1, so bounds of sizes go through B itself:

    Dy = B(Dp, q) + B(p, Dq),   D²y = B(D²p, q) + B(p, D²q) + B(Dp, Dq) + B(Dp, Dq) with the inputs exchanged,

and in a scalar f with a = ∂f/∂y, D²f ∋ ⟨a, B(Dp, Dq)⟩ symmetrised and D³f ∋ ⟨a, B(D²p, Dq) + B(Dp, D²q)⟩ symmetrised.

An entry of a product of matrices is an inner product, Σ_k p_k q_k, so that |Σ_k Dp_k(x) Dq_k(y)| ≤ ‖Dp‖‖Dq‖ for the
derivatives of a row of p and a column of q, which is less than the sum of ‖Dp_k‖‖Dq_k‖. And as a whole
‖B(x, y)‖ ≤ ‖x‖‖y‖, |⟨a, B(x, y)⟩| ≤ ‖a‖‖x‖‖y‖, with the spectral norm of a; entry by entry, with its largest entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import SPARSE, spectral_norm
from boundcheck.numerics.program.enclosure.elementwise import arranged, products
from boundcheck.numerics.program.enclosure.forms import Curvature, Trilinear, congruence, nothing
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, around, norm, total
from boundcheck.numerics.program.enclosure.linear import image, sum_of, transposed
from boundcheck.numerics.program.enclosure.sparse_derivative import Sparse, of_factors, of_product
from boundcheck.numerics.program.enclosure.value import (
    PAIRS,
    SLOTS,
    Bend,
    Pair,
    Slope,
    Term,
    Triple,
    Value,
    pairs_of,
    rounding,
)
from boundcheck.numerics.program.rounding_rules.ball import TINY

Product = Callable[[Tensor, Tensor], Tensor]
Factor = Literal[0, 1]  # which of the two factors
# products of vectors and matrices, over the last axis of the first factor
MATRICES = frozenset(getattr(torch.ops.aten, name).default for name in ("mm", "mv", "dot", "vdot", "bmm", "matmul"))
MOST_LINES = 1_000  # of a derivative without its zeros, each of which is a product of matrices
MOST_PRODUCTS = 40_000_000  # numbers in the parts of a second derivative; above that only its size is kept


@dataclass(frozen=True, eq=False)
class Bilinear:
    """y = B(p, q); `terms` is the length of the longest sum in it."""

    p: Value
    q: Value
    B: Product
    entrywise: bool
    terms: int

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The tensors that it reads."""
        return self.p, self.q

    def _paired(self, x: Tensor, y: Tensor, first: Factor) -> Tensor:
        """B with x in the place of the factor `first` and y in the other."""
        return self.B(x, y) if first == 0 else self.B(y, x)

    def _transposed(self, cotangent: Tensor, other: Tensor, factor: Factor) -> Tensor:
        """The derivative of ⟨cotangent, B⟩ by one factor, where the other one is given."""
        zero = torch.zeros(self.inputs[factor].shape, dtype=torch.float64)
        pulled: Tensor = torch.func.vjp(lambda x: self._paired(x, other, factor), zero)[1](cotangent)[0]
        return pulled

    def backward(self, adjoint: Interval) -> Iterator[tuple[Value, Interval]]:
        yield self.p, self._pulled(adjoint, self.q.box, 0)
        yield self.q, self._pulled(adjoint, self.p.box, 1)

    def _pulled(self, adjoint: Interval, other: Interval, factor: Factor) -> Interval:
        if self.entrywise:
            return adjoint * other
        loss = rounding(adjoint.lo.numel())

        def pulled(cotangent: Tensor, other: Tensor) -> Tensor:
            return transposed(lambda x: self._paired(x, other, factor), [self.inputs[factor].shape], cotangent)[0]

        mid = pulled(adjoint.mid, other.mid)
        rad = pulled(adjoint.rad, other.size)
        rad = rad + pulled(adjoint.mid.abs(), other.rad + loss * other.mid.abs())
        return around(mid, rad * (UP + loss) + TINY)

    def curvature(self, adjoint: Interval, pair: Pair) -> Iterator[Curvature]:
        straight, crossed = self._crossed(adjoint, *pair), self._crossed(adjoint, pair[1], pair[0])
        if straight is not None:
            yield straight
        if crossed is not None:
            yield Curvature(crossed.lo.T, crossed.up.T, crossed.slack)

    def _size(self, a: Tensor) -> float:
        """s with |⟨b, B(x, y)⟩| ≤ s‖x‖‖y‖ for all |b| ≤ a, entry by entry; infinite where none is known."""
        if not bool(a.isfinite().all()):
            return math.inf
        if self.entrywise:
            return float(a.max()) if a.numel() else 0.0
        if self.B not in MATRICES:
            return math.inf
        if len(self.p.shape) < 3 and len(self.q.shape) < 3:
            return spectral_norm(a.reshape(-1, 1) if a.dim() < 2 else a)
        return norm(a)

    def _unknown_rows(self, size: Tensor, of_p: str, of_q: str) -> float:
        """What the rows that are not known add to ⟨a, B(Dp, Dq)⟩, for |a| ≤ size."""
        one, two = self.p.slopes[of_p], self.q.slopes[of_q]
        if not bool(one.rows.any()) and not bool(two.rows.any()):
            return 0.0
        by_entries = total(size * self.B(one.norms, two.rows)) + total(size * self.B(one.rows, two.reach))
        s = self._size(size)
        if not math.isfinite(s):
            return by_entries
        (F, R), (G, S) = self.p.slope_norm(of_p), self.q.slope_norm(of_q)
        return _least(by_entries, s * (F * S + R * (G + S)) * UP)

    def _crossed(self, adjoint: Interval, of_p: str, of_q: str) -> Curvature | None:
        """⟨a, B(Dp, Dq)⟩ with Dp by the one and Dq by the other input."""
        one, two = self.p.slopes.get(of_p), self.q.slopes.get(of_q)
        if one is None or two is None:
            return None
        a = adjoint.mid
        if self.entrywise:
            middle = congruence(one.matrix.T, a.reshape(-1), two.matrix.T)
        elif isinstance(one.held, Sparse) and (turned := self._turned(a)) is not None:
            rows = csr_matrix(two.matrix.numpy()) if two.matrix.count_nonzero() <= SPARSE * two.matrix.numel() else None
            left = (turned @ one.held.rows).T
            middle = torch.from_numpy(left @ two.matrix.numpy() if rows is None else (left @ rows).toarray())
        else:
            pulled = torch.vmap(lambda x: self._transposed(a, x, 1))(one.F)
            middle = pulled.reshape(one.k, -1) @ two.matrix
        size, sizes = adjoint.size, self.B(one.norms, two.norms)
        slack = total(adjoint.rad * sizes)
        s = self._size(adjoint.rad) if slack > 0 else math.inf
        if math.isfinite(s):
            slack = _least(slack, s * self.p.slope_norm(of_p)[0] * self.q.slope_norm(of_q)[0] * UP)
        slack += self._unknown_rows(size, of_p, of_q)
        slack += rounding(self.p.box.lo.numel() + self.q.box.lo.numel()) * total(size * sizes)
        return Curvature(middle, middle, slack * (1 + 1e-12))

    def _turned(self, a: Tensor) -> csr_matrix | None:
        """The coefficients of x ↦ xᵀa, the derivative of ⟨a, B(x, q)⟩ by q; None for a B that is not of matrices."""
        places = self._places() if self.B in MATRICES else None
        if places is None:
            return None
        i, j = (x.numpy() for x in places[:2])
        shape = self.q.shape.numel(), self.p.shape.numel()
        return csr_matrix((a.reshape(-1)[places[2]].numpy(), (j, i)), shape=shape)

    def third(self, adjoint: Interval, slots: Triple) -> Iterator[Trilinear]:
        for pair, places in pairs_of(slots):
            for bent in (0, 1):
                yield from self._bent(adjoint, pair, slots[places[2]], places, bent)

    def _bent(
        self, adjoint: Interval, pair: Pair, slot: str, places: tuple[int, int, int], factor: Factor
    ) -> Iterator[Trilinear]:
        """⟨a, B(D²p, Dq)⟩, or for factor 1 ⟨a, B(Dp, D²q)⟩."""
        bent, other = self.inputs[factor], self.inputs[1 - factor]
        bend, slope = bent.bend(pair), other.slopes.get(slot)
        if bend is None or slope is None:
            return
        if self.entrywise:
            yield from products(bend, bent.shape, adjoint.map(lambda t: t.reshape(-1)), slope, places)
            return
        size, loss = adjoint.size, rounding(adjoint.lo.numel() + self.terms)
        slack = total(size * self._paired(bend.rest, slope.reach, factor))
        for term in bend.terms:
            sizes = term.sizes(bent.shape)
            slack += total(adjoint.rad * self._paired(sizes, slope.reach, factor))
            slack += total(size * self._paired(sizes, slope.rows + 2 * loss * slope.reach, factor))
            other_factor: Factor = 1 if factor == 0 else 0
            pulled = torch.vmap(lambda m, i=other_factor: self._transposed(adjoint.mid, m, i))(term.matrix(bent.shape))
            C = pulled.reshape(len(pulled), -1) @ slope.matrix
            yield arranged(term.c, (term.A, term.B, C[:, None]), places, 0.0)
        yield nothing(slack * (1 + 1e-12))

    def bend(self, pair: Pair) -> Bend:
        terms: list[Term] = []
        rest = torch.zeros(self.B(self.p.box.lo, self.q.box.lo).shape, dtype=torch.float64)
        for of_p, of_q, turned in ((*pair, False), (pair[1], pair[0], True)):
            one, two = self.p.slopes.get(of_p), self.q.slopes.get(of_q)
            if one is None or two is None:
                continue
            known = _joint(self.B, self.q, one, two)
            by_entries = self.B(one.norms, two.rows) + self.B(one.rows, two.reach)
            rest = rest + (by_entries if known is None else torch.minimum(by_entries, known.loose))
            term = self._expanded(one, two, rest.shape)
            if term is None:
                rest = rest + self.B(one.norms, two.norms)
            else:
                terms.append(Term(term.c, term.B, term.A, term.M) if turned else term)
        for factor in (0, 1):
            more, left = self._of_factor(pair, factor)
            terms += more
            rest = rest + left
        rest = rest * (UP + rounding(self.terms))
        return Bend(tuple(terms), rest, norm(rest), self._most(pair))

    def norm_of(self, factor: Value) -> float:
        """At least the norm of B as an operator on the other factor, over the ball; infinite where none is known."""
        size = factor.box.size
        if not bool(size.isfinite().all()) or not (self.entrywise or self.B in MATRICES):
            return math.inf
        if self.entrywise:
            return float(size.max()) if size.numel() else 0.0
        return spectral_norm(size.reshape(-1, 1) if size.dim() < 2 else size) if size.dim() < 3 else norm(size)

    def _most(self, pair: Pair) -> float:
        """At least the norm of D²y: ‖B(x, y)‖ ≤ ‖x‖‖y‖, with the norm of a factor that does not move as an operator."""
        if not (self.entrywise or self.B in MATRICES):
            return math.inf
        most = 0.0
        for of_p, of_q in (pair, (pair[1], pair[0])):
            if of_p in self.p.slopes and of_q in self.q.slopes:
                most += sum(self.p.slope_norm(of_p)) * sum(self.q.slope_norm(of_q)) * UP
        for bent, other in ((self.p, self.q), (self.q, self.p)):
            bend = bent.bend(pair)
            if bend is not None:
                most += self.norm_of(other) * bend.norm(bent.shape) * UP
        return math.inf if math.isnan(most) else most

    def _of_factor(self, pair: Pair, factor: Factor) -> tuple[list[Term], Tensor]:
        """B(D²p, q), or for factor 1 B(p, D²q): its terms and its rest."""
        bent, other = self.inputs[factor], self.inputs[1 - factor]
        bend = bent.bend(pair)
        if bend is None:
            return [], torch.zeros((), dtype=torch.float64)
        mid, off, loss = other.centre.mid, other.off(), rounding(self.terms)
        terms, rest = [], self._paired(bend.rest, other.box.size, factor)
        for term in bend.terms:
            if self.entrywise and term.M is None:
                terms.append(Term(term.c * other.box.map(lambda t: t.reshape(-1)), term.A, term.B))
                continue
            moved = torch.vmap(lambda m: self._paired(m, mid, factor))(term.matrix(bent.shape))
            terms.append(Term(term.c, term.A, term.B, moved))
            rest = rest + self._paired(term.sizes(bent.shape), off + loss * mid.abs(), factor)
        return terms, rest

    def _expanded(self, one: Slope, two: Slope, shape: torch.Size) -> Term | None:
        """B(Dp, Dq) as a sum over single products of an entry of p and one of q; None if that is too large."""
        if self.entrywise:
            ones = torch.ones(one.matrix.shape[0], dtype=torch.float64)
            return Term(Interval(ones, ones), one.matrix[:, None], two.matrix[:, None])
        places = self._places()
        if places is None or len(places[0]) * (one.k + two.k + shape.numel()) > MOST_PRODUCTS:
            return None
        i, j, y = places
        count = len(i)
        M = torch.zeros(count, shape.numel(), dtype=torch.float64)
        M[torch.arange(count), y] = 1
        ones = torch.ones(count, dtype=torch.float64)
        return Term(Interval(ones, ones), one.matrix[i][:, None], two.matrix[j][:, None], M.reshape(count, *shape))

    def _places(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Which entry of p times which entry of q goes into which entry of y; None for a B that is not of matrices."""
        a, b = self.p.shape, self.q.shape
        if len(a) not in (1, 2) or len(b) not in (1, 2) or a[-1] != b[0]:
            return None
        rows, inner, columns = (a[0] if len(a) == 2 else 1), a[-1], (b[1] if len(b) == 2 else 1)
        if rows * inner * columns > MOST_PRODUCTS // 10:
            return None
        r, k, c = torch.meshgrid(torch.arange(rows), torch.arange(inner), torch.arange(columns), indexing="ij")
        return (r * inner + k).reshape(-1), (k * columns + c).reshape(-1), (r * columns + c).reshape(-1)


@dataclass(frozen=True, eq=False)
class _Joint:
    """At least the norm of Σ_k Dp_k⊗Dq_k for each entry of a product of matrices, and of what is not known of it."""

    whole: Tensor
    loose: Tensor


def _joint(B: Product, q: Value, one: Slope, two: Slope) -> _Joint | None:
    """‖Σ_k Dp_k⊗Dq_k‖ ≤ ‖Dp‖‖Dq‖ for the derivatives of a row of p and of a column of q; None for other products."""
    if B not in MATRICES:
        return None
    axis = -2 if len(q.shape) > 1 else -1
    (F, R), (G, S) = of_lines(one, -1), of_lines(two, axis)
    F, R = F.unsqueeze(-1), R.unsqueeze(-1)
    G, S = G.unsqueeze(axis), S.unsqueeze(axis)
    return _Joint(B(F + R, G + S) * UP, (B(F, S) + B(R, G + S)) * UP)


def size_of_pair(B: Product, q: Value, one: Slope, two: Slope) -> Tensor:
    """At least the norm of B(Dp, Dq) as a bilinear form, for each entry, with these derivatives of p and q."""
    size, known = B(one.reach, two.reach), _joint(B, q, one, two)
    return size if known is None else torch.minimum(size, known.whole)


def of_lines(slope: Slope, axis: int) -> tuple[Tensor, Tensor]:
    """At least ‖F‖ and ‖J − F‖ of the entries along an axis together. ‖F‖² is at most a row sum of |FFᵀ|."""
    norms, rows = slope.norms.movedim(axis, -1), slope.rows.movedim(axis, -1)
    count = norms.shape[-1]
    squares = (norms**2).sum(-1)
    if isinstance(slope.held, Sparse):
        known = slope.held.line_norms(axis, MOST_LINES)
        squares = squares if known is None else torch.minimum(squares, known)
    elif slope.k * norms.numel() * count <= MOST_PRODUCTS:
        lines = slope.held.movedim(axis, -1)
        grams = torch.einsum("k...i,k...j->...ij", lines, lines).abs()
        lost = rounding(lines.shape[0]) * norms.unsqueeze(-1) * norms.unsqueeze(-2)
        squares = torch.minimum(squares, (grams + lost).sum(-1).amax(-1))
    loss = UP + rounding(count)
    return (squares * loss).sqrt() * UP, (rows**2).sum(-1).sqrt() * loss


def _least(a: float, b: float) -> float:
    """The smaller of two bounds; one that is no number says nothing."""
    return min((x for x in (a, b) if not math.isnan(x)), default=math.inf)


def bilinear_value(p: Value, q: Value, B: Product, *, entrywise: bool, terms: int) -> Value:
    """The enclosures of B(p, q)."""
    loss = rounding(terms)

    def enclosed(x: Interval, y: Interval) -> Interval:
        if entrywise:
            return x * y
        mid = B(x.mid, y.mid)
        rad = B(x.mid.abs(), y.rad + loss * y.mid.abs()) + B(x.rad, y.size)
        return around(mid, rad * (UP + loss) + terms * TINY)

    slopes = {slot: _slope(p, q, B, slot, loss) for slot in SLOTS if slot in p.slopes or slot in q.slopes}
    bends = {}
    for pair in PAIRS:
        parts = []
        for of_p, of_q in (pair, (pair[1], pair[0])):
            one, two = p.slopes.get(of_p), q.slopes.get(of_q)
            if one is not None and two is not None:
                parts.append(size_of_pair(B, q, one, two))
        if pair in p.bends:
            parts.append(B(p.bends[pair], q.box.size))
        if pair in q.bends:
            parts.append(B(p.box.size, q.bends[pair]))
        if parts:
            bends[pair] = torch.stack(parts).sum(0) * (UP + loss)
    rule = Bilinear(p, q, B, entrywise, terms)
    centre = enclosed(p.centre, q.centre)
    box = centre if p.at_point and q.at_point else enclosed(p.box, q.box)
    return Value(centre, box, slopes, bends, rule)


def _slope(p: Value, q: Value, B: Product, slot: str, loss: float) -> Slope:
    """B(Dp, q) + B(p, Dq) by one input."""
    one, two = p.slopes.get(slot), q.slopes.get(slot)
    p_mid, q_mid = p.centre.mid, q.centre.mid
    parts: list[Tensor | Sparse] = []
    slip = rows = torch.zeros((), dtype=torch.float64)
    if one is not None:
        parts.append(_image(one, lambda x: B(x, q_mid), B, q_mid, first=True))
        rounded = 2 * loss * B(one.norms, q_mid.abs())
        slip = slip + B(one.slip, q.centre.size) + B(one.norms, q.centre.rad) + rounded
        rows = rows + B(one.rows, q.box.size) + B(one.norms, q.off()) + rounded
    if two is not None:
        parts.append(_image(two, lambda x: B(p_mid, x), B, p_mid, first=False))
        rounded = 2 * loss * B(p_mid.abs(), two.norms)
        slip = slip + B(p.centre.size, two.slip) + B(p.centre.rad, two.norms) + rounded
        rows = rows + B(p.box.size, two.rows) + B(p.off(), two.norms) + rounded
    return Slope(sum_of(parts), slip * (UP + loss), rows * (UP + loss))


def _image(slope: Slope, f: Callable[[Tensor], Tensor], B: Product, other: Tensor, *, first: bool) -> Tensor | Sparse:
    """The derivative of B(x, other), or of B(other, x) where x is not first."""

    def coefficients() -> csr_matrix | None:
        if B in MATRICES:
            return of_product(other, slope.slip.shape, first)
        return of_factors(other, other.shape, other.shape) if B is torch.mul else None

    shape = f(torch.zeros(slope.slip.shape, dtype=torch.float64)).shape
    return image(slope, f, shape, coefficients, moves=False)

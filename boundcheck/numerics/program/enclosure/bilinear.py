"""The rule for products y = B(p, q) of two tensors that both vary: entrywise, of matrices, or a convolution.

B is linear in each factor with coefficients 0 and 1, so B itself maps bounds of sizes to bounds of sizes:

    Dy = B(Dp, q) + B(p, Dq),   D²y = B(D²p, q) + B(p, D²q) + B(Dp, Dq) + B(Dp, Dq) with the inputs exchanged,

For a scalar f with a = ∂f/∂y, D²f contains ⟨a, B(Dp, Dq)⟩ symmetrised, and D³f contains ⟨a, B(D²p, Dq) + B(Dp, D²q)⟩
symmetrised.

An entry of a product of matrices is an inner product Σ_k p_k q_k, so |Σ_k Dp_k(x) Dq_k(y)| ≤ ‖Dp‖‖Dq‖ with the
derivatives of a row of p and a column of q. This is at most the sum of ‖Dp_k‖‖Dq_k‖. The whole product satisfies
‖B(x, y)‖ ≤ ‖x‖‖y‖ and |⟨a, B(x, y)⟩| ≤ ‖a‖‖x‖‖y‖ with the spectral norm of a, or its largest entry if B is entrywise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import SPARSE, spectral_norm
from boundcheck.numerics.program.enclosure.bilinear_sizes import MATRICES, MOST_IN_PARTS, Product, joint_norms
from boundcheck.numerics.program.enclosure.curvature_form import Curvature, congruence
from boundcheck.numerics.program.enclosure.elementwise import arranged, products
from boundcheck.numerics.program.enclosure.forms import Trilinear, nothing
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, around, norm, total
from boundcheck.numerics.program.enclosure.linear import transposed
from boundcheck.numerics.program.enclosure.sparse_derivative import Sparse
from boundcheck.numerics.program.enclosure.value import Bend, Pair, Slope, Term, Triple, Value, pairs_of, rounding
from boundcheck.numerics.program.rounding_rules.ball import TINY

Factor = Literal[0, 1]  # index of a factor


@dataclass(frozen=True, eq=False)
class Bilinear:
    """y = B(p, q). `terms` is the length of the longest sum in B."""

    p: Value
    q: Value
    B: Product
    entrywise: bool
    terms: int

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The tensors that the rule reads."""
        return self.p, self.q

    def _paired(self, x: Tensor, y: Tensor, first: Factor) -> Tensor:
        """Return B with x as the factor number `first` and y as the other factor."""
        return self.B(x, y) if first == 0 else self.B(y, x)

    def _transposed(self, cotangent: Tensor, other: Tensor, factor: Factor) -> Tensor:
        """Return the derivative of ⟨cotangent, B⟩ by one factor, for a given other factor."""
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
        """Return s with |⟨b, B(x, y)⟩| ≤ s‖x‖‖y‖ for all |b| ≤ a, entry by entry; infinite if no s is known."""
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
        """Bound what the uncertainty `rows` of Dp and Dq adds to ⟨a, B(Dp, Dq)⟩, for |a| ≤ size."""
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
        """Return ⟨a, B(Dp, Dq)⟩, with Dp by the input `of_p` and Dq by the input `of_q`."""
        one, two = self.p.slopes.get(of_p), self.q.slopes.get(of_q)
        if one is None or two is None:
            return None
        a = adjoint.mid
        if self.entrywise:
            middle = congruence(one.matrix.T, a.reshape(-1), two.matrix.T)
        elif isinstance(one.held, Sparse) and (by_q := self._cotangent_matrix(a)) is not None:
            rows = csr_matrix(two.matrix.numpy()) if two.matrix.count_nonzero() <= SPARSE * two.matrix.numel() else None
            left = (by_q @ one.held.rows).T
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

    def _cotangent_matrix(self, a: Tensor) -> csr_matrix | None:
        """Return the matrix of x ↦ xᵀa, the derivative of ⟨a, B(x, q)⟩ by q; None if B is not a matrix product."""
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
        """Yield ⟨a, B(D²p, Dq)⟩ for factor 0, or ⟨a, B(Dp, D²q)⟩ for factor 1."""
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
        for of_p, of_q, is_swapped in ((*pair, False), (pair[1], pair[0], True)):
            one, two = self.p.slopes.get(of_p), self.q.slopes.get(of_q)
            if one is None or two is None:
                continue
            joint = joint_norms(self.B, self.q, one, two)
            by_entries = self.B(one.norms, two.rows) + self.B(one.rows, two.reach)
            rest = rest + (by_entries if joint is None else torch.minimum(by_entries, joint.loose))
            term = self._expanded(one, two, rest.shape)
            if term is None:
                rest = rest + self.B(one.norms, two.norms)
            else:
                terms.append(Term(term.c, term.B, term.A, term.M) if is_swapped else term)
        for factor in (0, 1):
            factor_terms, factor_rest = self._of_factor(pair, factor)
            terms += factor_terms
            rest = rest + factor_rest
        rest = rest * (UP + rounding(self.terms))
        return Bend(tuple(terms), rest, norm(rest), self._most(pair))

    def norm_of(self, factor: Value) -> float:
        """Return an upper bound of the norm of B as an operator on the other factor; infinite if none is known."""
        size = factor.box.size
        if not bool(size.isfinite().all()) or not (self.entrywise or self.B in MATRICES):
            return math.inf
        if self.entrywise:
            return float(size.max()) if size.numel() else 0.0
        return spectral_norm(size.reshape(-1, 1) if size.dim() < 2 else size) if size.dim() < 3 else norm(size)

    def _most(self, pair: Pair) -> float:
        """Return an upper bound of the norm of D²y, by ‖B(x, y)‖ ≤ ‖x‖‖y‖ and the operator norms of the factors."""
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
        """Return the terms and the rest of B(D²p, q) for factor 0, or of B(p, D²q) for factor 1."""
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
            M = torch.vmap(lambda m: self._paired(m, mid, factor))(term.matrix(bent.shape))
            terms.append(Term(term.c, term.A, term.B, M))
            rest = rest + self._paired(term.sizes(bent.shape), off + loss * mid.abs(), factor)
        return terms, rest

    def _expanded(self, one: Slope, two: Slope, shape: torch.Size) -> Term | None:
        """Return B(Dp, Dq) as a sum of products of an entry of p and an entry of q; None if it is too large."""
        if self.entrywise:
            ones = torch.ones(one.matrix.shape[0], dtype=torch.float64)
            return Term(Interval(ones, ones), one.matrix[:, None], two.matrix[:, None])
        places = self._places()
        if places is None or len(places[0]) * (one.k + two.k + shape.numel()) > MOST_IN_PARTS:
            return None
        i, j, y = places
        count = len(i)
        M = torch.zeros(count, shape.numel(), dtype=torch.float64)
        M[torch.arange(count), y] = 1
        ones = torch.ones(count, dtype=torch.float64)
        return Term(Interval(ones, ones), one.matrix[i][:, None], two.matrix[j][:, None], M.reshape(count, *shape))

    def _places(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return indices i, j, l such that p_i q_j is a term of y_l; None if B is not a matrix product or is large."""
        a, b = self.p.shape, self.q.shape
        if len(a) not in (1, 2) or len(b) not in (1, 2) or a[-1] != b[0]:
            return None
        rows, inner, columns = (a[0] if len(a) == 2 else 1), a[-1], (b[1] if len(b) == 2 else 1)
        if rows * inner * columns > MOST_IN_PARTS // 10:
            return None
        r, k, c = torch.meshgrid(torch.arange(rows), torch.arange(inner), torch.arange(columns), indexing="ij")
        return (r * inner + k).reshape(-1), (k * columns + c).reshape(-1), (r * columns + c).reshape(-1)


def _least(a: float, b: float) -> float:
    """Return the smaller of two bounds, ignoring NaN."""
    return min((x for x in (a, b) if not math.isnan(x)), default=math.inf)

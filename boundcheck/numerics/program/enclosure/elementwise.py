"""The rule for functions of one number, entry by entry: y = φ(x).

    Dy = φ' Dx,   D²y = φ'' Dx⊗Dx + φ' D²x,
    for a scalar f:   D²f ∋ Σ_i a_i φ''_i Dx_i⊗Dx_i,   D³f ∋ Σ_i a_i (φ'''_i Dx_i⊗Dx_i⊗Dx_i + φ''_i Sym D²x_i⊗Dx_i),

with a = ∂f/∂y, where ∋ means that the sum is one of the terms. The chain gives ranges of φ' to φ''' over the box of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import spectral_norm
from boundcheck.numerics.program.enclosure.chain import Chain, applied, chain_of
from boundcheck.numerics.program.enclosure.curvature_form import Curvature, congruence
from boundcheck.numerics.program.enclosure.elementary import Elementary, Jet
from boundcheck.numerics.program.enclosure.forms import Trilinear, nothing, sum_of_products
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, norm
from boundcheck.numerics.program.enclosure.sparse_derivative import Sparse
from boundcheck.numerics.program.enclosure.value import (
    PAIRS,
    Bend,
    Pair,
    Slope,
    Term,
    Triple,
    Value,
    pairs_of,
    rounding,
)

Remainders = Callable[[], tuple[float, float]]  # returns bounds of ‖J − F‖ and ‖K − G‖ as matrices


@dataclass(frozen=True, eq=False)
class Elementwise:
    """y = φ(base). `jet` has the ranges of φ and its derivatives over the box of the base."""

    base: Value
    jet: Jet
    at_centre: Jet

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The tensors that the rule reads."""
        return (self.base,)

    def backward(self, adjoint: Interval) -> Iterator[tuple[Value, Interval]]:
        yield self.base, adjoint * self.jet[1]

    def curvature(self, adjoint: Interval, pair: Pair) -> Iterator[Curvature]:
        one, two = (self.base.slopes.get(slot) for slot in pair)
        if one is None or two is None:
            return
        s = _flat(adjoint * self.jet[2])
        F, G = one.matrix.T, two.matrix.T
        n, p = one.norms.reshape(-1), two.norms.reshape(-1)
        loss = rounding(len(s.lo)) * sum_of_products(s.size, n, p)
        loss += cross_slack(s.size, one, two, lambda: (self.base.remainder(pair[0]), self.base.remainder(pair[1])))
        if pair[0] == pair[1]:
            yield Curvature(congruence(F, s.lo, F), congruence(F, s.hi, F), loss)
        else:
            wide = min(sum_of_products(s.rad, n, p), weighted_norm(s.rad, F) * weighted_norm(s.rad, G))
            middle = congruence(F, s.mid, G)
            yield Curvature(middle, middle, loss + wide)

    def third(self, adjoint: Interval, slots: Triple) -> Iterator[Trilinear]:
        slopes = [self.base.slopes.get(slot) for slot in slots]
        if all(slope is not None for slope in slopes):
            t, all_slopes = _flat(adjoint * self.jet[3]), [slope for slope in slopes if slope is not None]
            if bool((t.size <= 1e-290).all()):  # 0, up to rounding
                yield nothing(sum_of_products(t.size, *(slope.reach.reshape(-1) for slope in all_slopes)))
            else:
                yield _cube(t, all_slopes)
        s = _flat(adjoint * self.jet[2])
        yield from bends_times_slopes(self.base, s, slots)

    def bend(self, pair: Pair) -> Bend:
        base = self.base
        terms: list[Term] = []
        rest, rest_norm = torch.zeros(base.shape, dtype=torch.float64), 0.0
        if all(slot in base.slopes for slot in pair):
            one, two = (base.slopes[slot] for slot in pair)
            size = self.jet[2].size
            terms.append(Term(_flat(self.jet[2]), one.matrix[:, None], two.matrix[:, None]))
            rest = rest + size * (one.norms * two.rows + one.rows * two.reach) * UP
            rest_norm += float((size * one.norms).max()) * base.remainder(pair[1]) * UP
            rest_norm += float((size * two.reach).max()) * base.remainder(pair[0]) * UP
        base_bend, most = base.bend(pair), math.inf
        if base_bend is not None:
            slope, size = self.at_centre[1].mid, self.jet[1].size
            if math.isfinite(base_bend.most):
                own = Bend(tuple(terms), rest, min(norm(rest), math.inf if math.isnan(rest_norm) else rest_norm) * UP)
                most = (own.norm(base.shape) + float(size.max()) * base_bend.norm(base.shape)) * UP
                most = math.inf if math.isnan(most) else most
            off = torch.maximum(self.jet[1].hi - slope, slope - self.jet[1].lo).clamp(min=0)
            error = torch.zeros_like(rest)
            for term in base_bend.terms:
                if term.M is None:  # each term belongs to one entry, so c can take the interval φ'
                    terms.append(Term(_flat(self.jet[1]) * term.c, term.A, term.B))
                else:
                    terms.append(Term(term.c, term.A, term.B, term.M * slope))
                    error = error + (off + rounding(2) * slope.abs()) * term.sizes(base.shape) * UP
            rest = rest + size * base_bend.rest + error
            rest_norm += float(size.max()) * base_bend.rest_norm * UP + norm(error)
        rest = rest * UP
        rest_norm = min(norm(rest), math.inf if math.isnan(rest_norm) else rest_norm * UP)
        return Bend(tuple(terms), rest, rest_norm, most)


def _flat(x: Interval) -> Interval:
    return x.map(lambda t: t.reshape(-1))


def cross_slack(s: Tensor, one: Slope, two: Slope, remainders: Remainders | None = None) -> float:
    """Bound the difference of Σ_i s_i J_i⊗K_i and Σ_i s_i F_i⊗G_i by the uncertainty `rows`, for |s_i| at most `s`."""
    if not bool(one.rows.any()) and not bool(two.rows.any()):
        return 0.0
    r, p = one.rows.reshape(-1), two.rows.reshape(-1)
    by_sum = sum_of_products(s, one.norms.reshape(-1), p) + sum_of_products(s, r, two.reach.reshape(-1))
    return min(by_sum, slack_by_norm(s, one, two, remainders)) * UP


def slack_by_norm(s: Tensor, one: Slope, two: Slope, remainders: Remainders | None = None) -> float:
    """Return an upper bound of ‖JᵀSK − FᵀSG‖ for every S with |xᵀSy| ≤ ‖diag(s)^½ x‖ ‖diag(s)^½ y‖.

    `remainders` returns bounds of ‖J − F‖ and ‖K − G‖ as matrices, which may be smaller than the bounds by rows.
    """
    r, p = one.rows.reshape(-1), two.rows.reshape(-1)
    root = s.clamp(min=0).sqrt()
    if not bool(root.isfinite().all()):
        return math.inf
    F, G = weighted_norm(s, one.matrix.T), weighted_norm(s, two.matrix.T)
    R, S = norm(root * r), norm(root * p)
    if remainders is not None and root.numel():
        top, (of_one, of_two) = float(root.max()) * UP, remainders()
        R, S = min(R, top * of_one), min(S, top * of_two)
    return F * S + R * (G + S)


def weighted_norm(s: Tensor, F: Tensor) -> float:
    """Return an upper bound of ‖F diag(s)^½‖."""
    return spectral_norm(F * s.clamp(min=0).sqrt()) * UP


def _cube(t: Interval, slopes: list[Slope]) -> Trilinear:
    """Return Σ_i t_i J_i⊗K_i⊗L_i."""
    n = [slope.norms.reshape(-1) for slope in slopes]
    r = [slope.rows.reshape(-1) for slope in slopes]
    reach = [slope.reach.reshape(-1) for slope in slopes]
    slack = 0.0
    if any(bool(rows.any()) for rows in r):
        slack += sum_of_products(t.size, r[0], reach[1], reach[2])
        slack += sum_of_products(t.size, n[0], r[1], reach[2]) + sum_of_products(t.size, n[0], n[1], r[2])
    A = slopes[0].matrix[:, None]
    B, C = (A if slope is slopes[0] else slope.matrix[:, None] for slope in slopes[1:])
    return Trilinear(t, A, B, C, slack)


def bends_times_slopes(x: Value, s: Interval, slots: Triple) -> Iterator[Trilinear]:
    """Yield Σ_i s_i D²x_i⊗Dx_i, symmetrised: D²x_i takes each of the three pairs of slots."""
    for pair, places in pairs_of(slots):
        bend, slope = x.bend(pair), x.slopes.get(slots[places[2]])
        if bend is not None and slope is not None:
            yield from products(bend, x.shape, s, slope, places)


def products(
    bend: Bend, shape: torch.Size, s: Interval, slope: Slope, places: tuple[int, int, int]
) -> Iterator[Trilinear]:
    """Yield the forms of Σ_i s_i D²x_i⊗J_i, with its three inputs in the given places."""
    reach, rows = slope.reach.reshape(-1), slope.rows.reshape(-1)
    rest = sum_of_products(s.size, bend.rest.reshape(-1), reach)
    if not bend.terms and rest > 0:  # |Σ_i s_i D²x_i(a, b) (Jc)_i| ≤ ‖D²x‖ ‖diag(s)J‖
        by_norm = (slope.weighted_norm(s.size) + norm(s.size * rows)) * min(bend.rest_norm, bend.most) * UP
        rest = rest if math.isnan(by_norm) else min(rest, by_norm)
    yield nothing(rest)
    for term in bend.terms:
        size = term.sizes(shape).reshape(-1)
        if term.M is None:  # c can take the interval s
            c, C = term.c * s, slope.matrix
            loss = sum_of_products(s.size, size, rows)
        else:
            c, C = term.c, (term.M.reshape(len(term.M), -1) * s.mid) @ slope.matrix
            loss = sum_of_products(s.rad, size, reach) + sum_of_products(s.size, size, rows)
            loss += rounding(len(s.lo)) * sum_of_products(s.size, size, reach)
        yield arranged(c, (term.A, term.B, C[:, None]), places, loss)


def arranged(c: Interval, factors: Sequence[Tensor], places: tuple[int, int, int], slack: float) -> Trilinear:
    """Return a trilinear form with its factors in the given places."""
    by_place = dict(zip(places, factors, strict=True))
    return Trilinear(c, by_place[0], by_place[1], by_place[2], slack)


def elementwise_value(chain: Chain) -> Value:
    """Return the enclosures of φ(base)."""
    base = chain.base
    at_centre = chain.jet(base.centre)
    jet = at_centre if base.at_point else chain.jet(base.box)
    slope_mid = at_centre[1].mid
    off = torch.maximum(jet[1].hi - slope_mid, slope_mid - jet[1].lo).clamp(min=0) * UP
    slopes = {}
    for slot, slope in base.slopes.items():
        error = rounding(1) * slope_mid.abs() * slope.norms
        slip = (at_centre[1].rad * slope.norms + at_centre[1].size * slope.slip + error) * UP
        rows = (off * slope.norms + jet[1].size * slope.rows + error) * UP
        F = slope.held.scaled(slope_mid) if isinstance(slope.held, Sparse) else slope_mid * slope.held
        slopes[slot] = Slope(F, slip, torch.where(rows.isnan(), math.inf, rows))
    bends = {}
    for pair in PAIRS:
        if all(slot in base.slopes for slot in pair):
            one, two = (base.slopes[slot].reach for slot in pair)
            base_bend = base.bends.get(pair, torch.zeros((), dtype=torch.float64))
            bend = (jet[2].size * one * two + jet[1].size * base_bend) * UP
            bends[pair] = torch.where(bend.isnan(), math.inf, bend)
    return Value(at_centre[0], jet[0], slopes, bends, Elementwise(base, jet, at_centre), chain)


def elementwise(function: Elementary, x: Value) -> Value:
    """Return φ(x), entry by entry, as an extension of the chain of x."""
    return elementwise_value(applied(function, chain_of(x)))

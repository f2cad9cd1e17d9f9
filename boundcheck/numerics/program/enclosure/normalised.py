"""The rule for y = m·x/√(‖x‖² + κ²) over one axis, the last step of layer norm, RMS norm and x/‖x‖.

With τ = √(‖x‖² + κ²) and g = x/τ, y = m·∇τ. So the derivatives of y are m times the second to fourth derivatives of τ:

    Dy = (m/τ)(I − ggᵀ),   p·D²y = −(m/τ²)(Ĥp gᵀ + (p·g)Ĥ + g(Ĥp)ᵀ) with Ĥ = I − ggᵀ,
    ‖Dy‖ ≤ m/τ,   ‖D²y‖ ≤ (2/√3)m/τ²,   ‖D³y‖ ≤ 3m/τ³.

A group differs from its centre by at most `gap`. So τ has a lower bound, and a derivative changes by at most `gap`
times the bound of the next order. If a derivative changes little, it is evaluated at the centre. Otherwise the bound
of its norm is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.bilinear_sizes import MOST_IN_PARTS, of_lines
from boundcheck.numerics.program.enclosure.curvature_form import Curvature
from boundcheck.numerics.program.enclosure.elementwise import weighted_norm
from boundcheck.numerics.program.enclosure.forms import Trilinear, nothing, sum_of_products
from boundcheck.numerics.program.enclosure.groups import Groups
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, around, norm
from boundcheck.numerics.program.enclosure.value import (
    PAIRS,
    Bend,
    Pair,
    Slope,
    Term,
    Triple,
    Value,
    W,
    pairs_of,
    rounding,
)

SECOND = 2 / math.sqrt(3) * (1 + 1e-15)  # upper bound of ‖D²y‖τ²/m
THIRD = 3.0  # upper bound of ‖D³y‖τ³/m
NEAR = 0.5  # D²y is evaluated at the centre if its change is at most this part of its bound


@dataclass(frozen=True, eq=False)
class Normalised(Groups):
    """y = m·x/√(‖x‖² + κ²) over the last axis of x, of shape (groups, k). m and κ may have one rounding."""

    m: float
    kappa: float
    gap: Tensor  # upper bound of ‖x(w) − centre.mid‖ over the ball, for each group

    @cached_property
    def loss(self) -> float:
        """The relative rounding error of values computed at the centre."""
        return 16 * math.sqrt(self.k) * rounding(self.k) + 2.0**-46

    @cached_property
    def root(self) -> Interval:
        """τ on all segments from the centre to x(w), for each group."""
        mid, box = self.x.centre.mid, self.x.box.join(self.x.centre)
        size: Tensor = torch.linalg.vector_norm(mid, dim=-1)
        nearest = torch.zeros_like(mid).clamp(box.lo, box.hi)
        least = torch.maximum(torch.linalg.vector_norm(nearest, dim=-1), size - self.gap)
        most = torch.minimum(self._sizes(box.size), size * (UP + self.loss) + self.gap)
        lo = torch.hypot(least.clamp(min=0) * (1 - self.loss), torch.tensor(self.kappa, dtype=torch.float64))
        hi = torch.hypot(most, torch.tensor(self.kappa, dtype=torch.float64))
        return Interval(lo * (1 - self.loss), hi * (UP + self.loss))

    @cached_property
    def at_centre(self) -> tuple[Tensor, Tensor]:
        """g and τ at the centre, as computed; g = 0 and τ = ∞ if x and κ are 0."""
        mid = self.x.centre.mid
        size: Tensor = torch.linalg.vector_norm(mid, dim=-1)
        root = torch.hypot(size, torch.tensor(self.kappa, dtype=torch.float64))
        root = torch.where(root > 0, root, math.inf)
        return mid / root[:, None], root

    @cached_property
    def first(self) -> Tensor:
        """Upper bound of ‖Dy‖, for each group."""
        return self.m / self.root.lo * UP

    @cached_property
    def second(self) -> Tensor:
        """Upper bound of ‖D²y‖, for each group."""
        return SECOND * self.m / self.root.lo**2 * UP

    @cached_property
    def third_size(self) -> Tensor:
        """Upper bound of ‖D³y‖, for each group."""
        return THIRD * self.m / self.root.lo**3 * UP

    @cached_property
    def moved(self) -> Tensor:
        """Upper bound of ‖Dy(w) − Dy(centre)‖ over the ball, with Dy(centre) as computed."""
        return torch.minimum(_times(self.second, self.gap), self.first) * UP + self.loss * self.first

    def slope_at_centre(self, t: Tensor) -> Tensor:
        """Return Dy at the centre times a tensor, over its last axis."""
        g, root = self.at_centre
        return (t - g * (g * t).sum(-1, keepdim=True)) * (self.m / root)[:, None]

    def backward(self, adjoint: Interval) -> Iterator[tuple[Value, Interval]]:
        mid, size = adjoint.mid, self._sizes(adjoint.size)
        g, root = self.at_centre
        rad = (adjoint.rad + g.abs() * (g.abs() * adjoint.rad).sum(-1, keepdim=True)) * (self.m / root)[:, None]
        near = around(self.slope_at_centre(mid), rad * (UP + self.loss) + _times(self.moved, size)[:, None] * UP)
        far = (_times(self.first, size) * UP)[:, None].expand_as(mid)
        yield self.x, Interval(torch.fmax(near.lo, -far), torch.fmin(near.hi, far))

    def curvature(self, adjoint: Interval, pair: Pair) -> Iterator[Curvature]:
        one, two = (self.x.slopes.get(slot) for slot in pair)
        if one is None or two is None:
            return
        p, size = adjoint.mid, _times(self.second, self._sizes(adjoint.size)) * UP
        g, root = self.at_centre
        across = p - g * (g * p).sum(-1, keepdim=True)  # Ĥp
        outer = across[:, :, None] * g[:, None]
        H = torch.eye(self.k, dtype=torch.float64) - g[:, :, None] * g[:, None]
        S = -(outer + outer.mT + (p * g).sum(-1)[:, None, None] * H) * (self.m / root**2)[:, None, None]
        off = _times(self.third_size * self._sizes(p), self.gap) + _times(self.second, self._sizes(adjoint.rad))
        off = (off + self.loss * size) * UP
        near = (off <= NEAR * size) & size.isfinite()
        S, off = torch.where(near[:, None, None], S, torch.zeros_like(S)), torch.where(near, off, size)
        slack = self._cross_slack(size, one, two, pair)
        n, q = self._sizes(one.norms), self._sizes(two.norms)
        slack += 4 * rounding(self.k + len(size)) * sum_of_products(size, n, q)
        middle = torch.einsum("agi,gij,bgj->ab", one.F, S, two.F)
        if pair[0] != pair[1]:
            by_norm = weighted_norm(self._each(off), one.matrix.T) * weighted_norm(self._each(off), two.matrix.T)
            slack += min(sum_of_products(off, n, q), by_norm)
            yield Curvature(middle, middle, slack * (1 + 1e-12))
            return
        wide = torch.einsum("agi,g,bgi->ab", one.F, off, one.F)
        yield Curvature(middle - wide, middle + wide, slack * (1 + 1e-12))

    def third(self, adjoint: Interval, slots: Triple) -> Iterator[Trilinear]:
        p = self._sizes(adjoint.size)
        slopes = [self.x.slopes[slot] for slot in slots if slot in self.x.slopes]
        if len(slopes) == 3:
            c = _times(self.third_size, p) * UP
            blocks = {id(slope): slope.matrix.reshape(-1, self.k, slope.F.shape[0]) for slope in slopes}
            A, B, C = (blocks[id(slope)] for slope in slopes)
            yield Trilinear(Interval(-c, c), A, B, C, self._loose(c, slopes))
        for pair, places in pairs_of(slots):  # bounds Σ_g p·D²y(D²x, Dx) by its size
            slope = self.x.slopes.get(slots[places[2]])
            if slope is not None and pair in self.x.bends:
                sizes = self._sizes(self.x.bends[pair]), self._sizes(slope.reach)
                yield nothing(sum_of_products(_times(self.second, p) * UP, *sizes))

    def bend(self, pair: Pair) -> Bend:
        """Return D²y(Dx, Dx), in parts if it changes little, plus Dy D²x."""
        x, shape = self.x, self.x.shape
        terms: list[Term] = []
        rest, rest_norm, most = torch.zeros(len(self.gap), dtype=torch.float64), 0.0, 0.0
        if all(slot in x.slopes for slot in pair):
            one, two = (x.slopes[slot] for slot in pair)
            (F, R), (G, S) = of_lines(one, -1), of_lines(two, -1)
            (_, left), (whole, right) = (x.slope_norm(slot) for slot in pair)
            change = _times(self.third_size, self.gap) + self.loss * self.second
            count = (3 * self.k + 1) * len(self.gap)
            if bool((change <= NEAR * self.second).all()) and count * (len(one.F) + shape.numel()) <= MOST_IN_PARTS:
                terms += self._parts(one, two)
            else:
                change = self.second
            rest = change * F * G + self.second * (F * S + R * (G + S))
            rest_norm = _most(change * F) * whole + _most(self.second * F) * right + _most(self.second * (G + S)) * left
            most = _most(self.second * (F + R)) * (whole + right)
        inner_bend = x.bend(pair)
        if inner_bend is not None:
            error = torch.zeros_like(rest)
            for term in inner_bend.terms:
                terms.append(Term(term.c, term.A, term.B, torch.vmap(self.slope_at_centre)(term.matrix(shape))))
                error = error + self.moved * self._sizes(term.sizes(shape))
            rest = rest + self.first * self._sizes(inner_bend.rest) + error
            rest_norm += _most(self.first) * inner_bend.rest_norm + norm(error)
            most += _most(self.first) * inner_bend.norm(shape)
        rest = torch.where(rest.isnan(), math.inf, rest * UP)[:, None].expand(shape)
        rest_norm, most = (math.inf if math.isnan(size) else size * UP for size in (rest_norm, most))
        return Bend(tuple(terms), rest, min(norm(rest), rest_norm), most)

    def _parts(self, one: Slope, two: Slope) -> list[Term]:
        """Return −(m/τ²)((g·b)Ĥa + (a·b − (g·a)(g·b))g + (g·a)Ĥb), where a and b are Dx times the two inputs."""
        (groups, k), (g, root) = self.x.shape, self.at_centre
        J, K = (slope.matrix.reshape(groups, k, -1) for slope in (one, two))
        along_J, along_K = ((g[:, :, None] * X).sum(1, keepdim=True) for X in (J, K))
        across_J, across_K = J - g[:, :, None] * along_J, K - g[:, :, None] * along_K
        c = -(self.m / root**2)
        each, entries = c[:, None].expand(-1, k).reshape(-1), groups * k

        def rows(X: Tensor) -> Tensor:
            return X.expand(-1, k, -1).reshape(entries, 1, -1)

        of_group = torch.eye(groups, dtype=torch.float64)[:, :, None] * g
        of_each = of_group.repeat_interleave(k, 0)
        return [
            Term(Interval(each, each), rows(across_J), rows(along_K)),
            Term(Interval(each, each), rows(along_J), rows(across_K)),
            Term(Interval(each, each), rows(J), rows(K), of_each),
            Term(Interval(-c, -c), along_J, along_K, of_group),
        ]


def _times(x: Tensor, y: Tensor) -> Tensor:
    """Return the product of two bounds. 0 times infinity is infinity, as nothing is known."""
    product = x * y
    return torch.where(product.isnan(), math.inf, product)


def _most(x: Tensor) -> float:
    return float(x.max()) if x.numel() else 0.0


def normalised_value(x: Value, m: float, kappa: float, radius: float) -> Value:
    """Return the enclosures of m·x/√(‖x‖² + κ²) over the last axis of x, of shape (groups, k)."""
    lines = {slot: of_lines(slope, -1) for slot, slope in x.slopes.items()}
    groups = Groups(x)
    gap, off = groups._sizes(x.off()), groups._sizes(x.centre.rad)
    if W in lines:
        gap = torch.minimum(gap, (radius * (lines[W][0] + lines[W][1]) + off) * UP)
    rule = Normalised(x, m, kappa, torch.where(gap.isnan(), math.inf, gap))
    slopes = {}
    error = _times(rule.second, off) * UP + rule.loss * rule.first
    for slot, slope in x.slopes.items():
        F, R = lines[slot]
        slip = _times(error, F) + _times(rule.first, groups._sizes(slope.slip)) + rule.loss * _times(rule.first, F)
        rows = _times(rule.moved, F) + _times(rule.first, R) + rule.loss * _times(rule.first, F)
        slip, rows = ((size * UP)[:, None].expand(x.shape) for size in (slip, rows))
        slopes[slot] = Slope(rule.slope_at_centre(slope.F), slip, rows)
    bends = {}
    for pair in PAIRS:
        size = torch.zeros_like(gap)
        if all(slot in x.slopes for slot in pair):
            (F, R), (G, S) = (lines[slot] for slot in pair)
            size = size + _times(rule.second, _times(F + R, G + S))
        if pair in x.bends:
            size = size + _times(rule.first, groups._sizes(x.bends[pair]))
        if pair in x.bends or all(slot in x.slopes for slot in pair):
            bends[pair] = (size * UP)[:, None].expand(x.shape)
    centre, box = _enclosed(rule, off)
    return Value(centre, box, slopes, bends, rule)


def _enclosed(rule: Normalised, off: Tensor) -> tuple[Interval, Interval]:
    """Enclose y at the centre and over the ball, by its distance from the computed value and by interval arithmetic."""
    x, top = rule.x, rule.m * (UP + rule.loss)
    mid = rule.at_centre[0] * rule.m
    scale = Interval((rule.m / rule.root.hi * (1 - rule.loss))[:, None], (rule.first * UP)[:, None])

    def within(distance: Tensor, values: Interval) -> Interval:
        near = around(mid, _times(rule.first, distance)[:, None] * UP + rule.loss * (mid.abs() + 2.0**-1000))
        quotient = values * scale
        return Interval(
            torch.fmax(torch.fmax(near.lo, quotient.lo), torch.full_like(mid, -top)),
            torch.fmin(torch.fmin(near.hi, quotient.hi), torch.full_like(mid, top)),
        )

    return within(off, x.centre), within(rule.gap, x.box)

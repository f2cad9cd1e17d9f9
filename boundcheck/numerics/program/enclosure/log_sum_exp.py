"""The rule for y = log Σ_i e^(x_i) over one axis, which is also used for cross-entropy and softmax.

With s = softmax(x) and Q = diag(s) − ssᵀ: Dy = sᵀDx, D²y = DxᵀQ Dx + Σ s_i D²x_i, and

    0 ⪯ Q ⪯ hP,   P = I − 11ᵀ/k,   ‖Q(x) − Q(x')‖ ≤ S₃‖x − x'‖,
    h = min(½, 2 max s_i(1 − s_i)),   S₃ = min(√6/9, √2 h)

over the box of x. The third derivative of log Σ e^x has norm at most S₃. For a scalar f, each group of entries adds
a_g DxᵀQ_g Dx to D²f. If the group changes little over the ball, Q is evaluated at the centre, with an error of at most
S₃ times the change of the group. Otherwise 0 ⪯ Q ⪯ hP is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.curvature_form import Curvature
from boundcheck.numerics.program.enclosure.elementwise import weighted_norm
from boundcheck.numerics.program.enclosure.forms import Trilinear, nothing, sum_of_products
from boundcheck.numerics.program.enclosure.groups import Groups
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, norm
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
from boundcheck.numerics.program.rounding_rules.ball import TINY

S3 = math.sqrt(6) / 9 * (1 + 1e-15)
ROOT_2 = math.sqrt(2) * (1 + 1e-15)
NEAR = 0.5  # Q is evaluated at the centre if its change is at most this part of h


@dataclass(frozen=True, eq=False)
class LogSumExp(Groups):
    """y = log Σ e^x over the last axis of x, which has shape (…, k)."""

    @cached_property
    def h(self) -> Tensor:
        """Upper bounds of ‖Q‖ over the box, for each group: absolute row sums 2s_i(1 − s_i), and at most ½."""
        s = softmax(self.x.box).map(lambda t: t.reshape(-1, self.k))
        nearest = torch.full_like(s.lo, 0.5).clamp(s.lo, s.hi)  # the point of the interval that is nearest to ½
        sizes: Tensor = (2 * (nearest * (1 - nearest)).amax(-1) * UP).clamp(max=0.5)
        return torch.where(sizes.isnan(), torch.full_like(sizes, 0.5), sizes)

    @cached_property
    def s3(self) -> Tensor:
        """Upper bounds of the norm of the third derivative over the box, for each group."""
        return (ROOT_2 * self.h * UP).clamp(max=S3)

    @cached_property
    def centre(self) -> tuple[Tensor, Tensor]:
        """softmax at the centre for each group, and upper bounds of ‖Q(w) − Q(centre)‖ over the ball."""
        s = torch.softmax(self.x.centre.mid, -1).reshape(-1, self.k)
        return s, self.s3 * self._sizes(self.x.off()) * UP + 64 * rounding(self.k)

    def backward(self, adjoint: Interval) -> Iterator[tuple[Value, Interval]]:
        yield self.x, adjoint.map(lambda t: t.unsqueeze(-1)) * softmax(self.x.box)

    def curvature(self, adjoint: Interval, pair: Pair) -> Iterator[Curvature]:
        one, two = (self.x.slopes.get(slot) for slot in pair)
        if one is None or two is None:
            return
        k, a = self.k, adjoint.map(lambda t: t.reshape(-1))
        F, G = (slope.F.reshape(slope.F.shape[0], -1, k) for slope in (one, two))
        s, uncertain = self.centre
        Q = s[:, :, None] * (torch.eye(k, dtype=torch.float64) - s[:, None, :])
        near = uncertain <= NEAR * self.h
        n, p = self._sizes(one.norms), self._sizes(two.norms)  # norms of groups: Q combines all entries of a group
        slack = self._cross_slack(a.size * self.h, one, two, pair)
        slack += 4 * rounding(k + len(a.lo)) * sum_of_products(a.size * 0.5, n, p)
        middle = torch.einsum("agi,g,gij,bgj->ab", F, a.mid * near, Q, G)
        off = torch.where(near, a.size * uncertain + a.rad * self.h, a.size * self.h)  # ≥ ‖aQ − a_mid Q_mid‖
        if pair[0] != pair[1]:
            by_norm = weighted_norm(self._each(off), one.matrix.T) * weighted_norm(self._each(off), two.matrix.T)
            slack += min(sum_of_products(off, n, p), by_norm)
            yield Curvature(middle, middle, slack * (1 + 1e-12))
            return
        P = torch.eye(k, dtype=torch.float64) - 1 / k  # aQ − a_mid Q_mid has 1 in its kernel
        above = torch.where(near, off, self.h * a.hi.clamp(min=0))
        below = torch.where(near, off, self.h * (-a.lo).clamp(min=0))
        up, lo = (torch.einsum("agi,g,ij,bgj->ab", F, amount, P, F) for amount in (above, below))
        yield Curvature(middle - lo, middle + up, slack * (1 + 1e-12))

    def third(self, adjoint: Interval, slots: Triple) -> Iterator[Trilinear]:
        a = adjoint.map(lambda t: t.reshape(-1))
        slopes = [self.x.slopes[slot] for slot in slots if slot in self.x.slopes]
        if len(slopes) == 3:
            c = a.size * self.s3 * UP
            blocks = {id(slope): slope.matrix.reshape(-1, self.k, slope.F.shape[0]) for slope in slopes}
            A, B, C = (blocks[id(slope)] for slope in slopes)
            yield Trilinear(Interval(-c, c), A, B, C, self._loose(c, slopes))  # for single rows, the sign of c is used
        for pair, places in pairs_of(slots):  # bounds Σ_g a_g ⟨D²x_g, Q_g Dx_g⟩ by ‖Q‖ ≤ h
            slope = self.x.slopes.get(slots[places[2]])
            if slope is not None and pair in self.x.bends:
                sizes = self._sizes(self.x.bends[pair]), self._sizes(slope.reach)
                yield nothing(sum_of_products(a.size * self.h * UP, *sizes))

    def bend(self, pair: Pair) -> Bend:
        """Return DxᵀQ Dx, as Σ_i s_i (J_i − sᵀJ)⊗(K_i − sᵀK) with Q at the centre, or as blocks with ‖Q‖ ≤ h."""
        x, k = self.x, self.k
        shape = x.shape[:-1]
        rest = torch.zeros(shape, dtype=torch.float64)
        terms: list[Term] = []
        if all(slot in x.slopes for slot in pair):
            one, two = (x.slopes[slot] for slot in pair)
            J, K = (slope.matrix.reshape(-1, k, slope.F.shape[0]) for slope in (one, two))
            s, uncertain = self.centre
            loose = self._sizes(one.norms) * self._sizes(two.rows) + self._sizes(one.rows) * self._sizes(two.reach)
            rest = rest + (self.h * loose).reshape(shape)
            if bool((uncertain <= NEAR * self.h).all()):
                terms.append(_centred(J, K, s, shape))
                wide = (uncertain + 16 * rounding(k)) * self._sizes(one.norms) * self._sizes(two.norms)
                rest = rest + wide.reshape(shape)
            else:
                terms.append(Term(Interval(-self.h, self.h), J, K))
        if pair in x.bends:
            top = softmax(x.box).hi
            rest = rest + (top * x.bends[pair]).sum(-1).minimum(x.bends[pair].amax(-1))
        rest = rest * (UP + rounding(k))
        return Bend(tuple(terms), rest, norm(rest))


def _centred(J: Tensor, K: Tensor, s: Tensor, shape: torch.Size) -> Term:
    """Return Σ_i s_i (J_i − sᵀJ)⊗(K_i − sᵀK) for each group."""
    groups, k = s.shape
    A, B = ((X - (s[:, None, :] @ X)).reshape(groups * k, 1, -1) for X in (J, K))
    M = torch.eye(groups, dtype=torch.float64).repeat_interleave(k, 0).reshape(groups * k, *shape)
    c = s.reshape(-1)
    return Term(Interval(c, c), A, B, M)


def softmax(x: Interval) -> Interval:
    """Enclose softmax over the last axis. A result is least where its own entry is least and the others are largest."""

    def end(own: Tensor, others: Tensor) -> Tensor:
        return torch.sigmoid(own - _of_others(others))

    size = x.size.amax(-1, keepdim=True)
    loss = 16 * rounding(x.shape[-1]) * (1 + torch.where(size.isfinite(), size, torch.zeros_like(size)))
    lo, hi = end(x.lo, x.hi), end(x.hi, x.lo)
    return Interval((lo - loss).clamp(min=0), (hi + loss).clamp(max=1))


def _of_others(x: Tensor) -> Tensor:
    """Return log Σ e^(x_j) over the other entries j of the last axis, without a difference of sums."""
    minus_infinity = torch.full_like(x[..., :1], -math.inf)
    of_earlier = torch.cat((minus_infinity, x[..., :-1].logcumsumexp(-1)), -1)
    of_later = torch.cat((x[..., 1:].flip(-1).logcumsumexp(-1).flip(-1), minus_infinity), -1)
    return torch.logaddexp(of_earlier, of_later)


def _bend_size(x: Value, pair: Pair) -> Tensor:
    """Return upper bounds of ‖D²y_g‖. ‖Σ_i s_i (J_i − sᵀJ)⊗(K_i − sᵀK)‖² is at most the product of both variances."""
    s = softmax(x.box).hi
    size = torch.zeros(x.shape[:-1], dtype=torch.float64)
    if all(slot in x.slopes for slot in pair):
        one, two = (x.slopes[slot].reach for slot in pair)
        by_variance = ((s * one**2).sum(-1) * (s * two**2).sum(-1)).sqrt()
        size = size + by_variance.minimum(one.amax(-1) * two.amax(-1))
    if pair in x.bends:
        size = size + (s * x.bends[pair]).sum(-1).minimum(x.bends[pair].amax(-1))
    return size * (UP + rounding(x.shape[-1]))


def log_sum_exp_value(x: Value) -> Value:
    """Return the enclosures of log Σ e^x over the last axis."""
    k = x.shape[-1]
    loss = 64 * rounding(k)

    def enclosed(box: Interval) -> Interval:
        lo, hi = torch.logsumexp(box.lo, -1), torch.logsumexp(box.hi, -1)
        return Interval(lo - loss * (1 + lo.abs()), hi + loss * (1 + hi.abs()))

    at, over = softmax(x.centre), softmax(x.box)
    s = at.mid
    off = torch.maximum(over.hi - s, s - over.lo).clamp(min=0) * UP
    slopes = {}
    for slot, slope in x.slopes.items():
        error = 2 * rounding(k) * (s * slope.norms).sum(-1)
        slip = (at.rad * slope.norms).sum(-1) + (at.hi * slope.slip).sum(-1) + error
        rows = (off * slope.norms).sum(-1) + (over.hi * slope.rows).sum(-1).minimum(slope.rows.amax(-1)) + error
        F = (slope.F * s).sum(-1)
        slopes[slot] = Slope(F, slip * (UP + rounding(k)) + TINY, rows * (UP + rounding(k)) + TINY)
    bends = {pair: _bend_size(x, pair) for pair in PAIRS if all(s in x.slopes for s in pair) or pair in x.bends}
    return Value(enclosed(x.centre), enclosed(x.box), slopes, bends, LogSumExp(x))

"""Bounds of the derivatives of a map Φ(w, λ) over a ball of w."""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import spectral_norm
from boundcheck.numerics.program.enclosure.bilinear import Bilinear
from boundcheck.numerics.program.enclosure.calm import calm_sizes
from boundcheck.numerics.program.enclosure.dependence import norm_by_blocks
from boundcheck.numerics.program.enclosure.elementwise import Elementwise
from boundcheck.numerics.program.enclosure.interpreter import Enclosures, OfLam
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.program.enclosure.linear import Linear
from boundcheck.numerics.program.enclosure.normalised import Normalised
from boundcheck.numerics.program.enclosure.value import LAM, Pair, Value, W
from boundcheck.numerics.program.recorded_program import Program


class MapBounds:
    """Bounds of the derivatives of Φ over the ball of radius `radius` around `centre`.

    Attributes
    ----------
    slope, lam_slope : float
        Upper bounds of ‖∂₁Φ‖ and ‖∂₂Φ‖.
    bend, lam_bend : float
        Upper bounds of the norms of the derivatives of ∂₁Φ and ∂₂Φ by w.
    """

    def __init__(
        self, program: Program, centre: Tensor, lam: Tensor, radius: float, *, with_lam: bool = True,
        of_lam: OfLam | None = None,
    ) -> None:  # fmt: skip
        """Enclose the map. `of_lam` caches values that depend only on λ, which bounds over several balls share."""
        self.radius = radius
        self.over = Enclosures(program, centre, lam, radius, with_lam=with_lam, of_lam=of_lam)

    @property
    def output(self) -> Value:
        """The enclosure of Φ."""
        return self.over.output

    @cached_property
    def slope(self) -> float:
        """Upper bound of ‖∂₁Φ‖."""
        return self._slope(W, (W, W))

    @cached_property
    def lam_slope(self) -> float:
        """Upper bound of ‖∂₂Φ‖."""
        return self._slope(LAM, (W, LAM))

    @torch.no_grad()
    def _slope(self, slot: str, pair: Pair) -> float:
        self.over.require(slot)
        slope = self.output.slopes.get(slot)
        if slope is None:
            return 0.0
        candidates = [norm_of_slope(self.output, slot)]
        if self.radius and pair in self.output.bends:
            bend = self.bend if pair == (W, W) else self.lam_bend
            candidates.append(slope.norm + norm(slope.slip) + self.radius * bend * UP)
        return min((x for x in candidates if not math.isnan(x)), default=math.inf) * UP

    @cached_property
    def bend(self) -> float:
        """Upper bound of the norm of the derivative of ∂₁Φ by w."""
        return self._bend((W, W))

    @cached_property
    def lam_bend(self) -> float:
        """Upper bound of the norm of the derivative of ∂₂Φ by w."""
        return self._bend((W, LAM))

    @torch.no_grad()
    def _bend(self, pair: Pair) -> float:
        self.over.require(*pair)
        bend = self.output.bend(pair)
        if bend is None:
            return 0.0
        sizes = self.output.bends[pair]
        best = min((x for x in (bend.norm(self.output.shape), norm(sizes)) if not math.isnan(x)), default=math.inf)
        if best > float(sizes.max()):  # a bound by blocks is never smaller than the largest size
            best = min(best, norm_by_blocks(self.output, pair, sizes))
        return best

    @torch.no_grad()
    def calm(self, at: MapBounds, distance: float, pair: Pair) -> float:
        """Return an upper bound of ‖J(w) − J(v)‖/‖w − v‖ for every w of the ball, where `pair` selects J = ∂₁Φ or ∂₂Φ.

        v is a point of the ball within `distance` of the centre of `at`, which has the bounds at one point of the ball.
        """
        along = self.bend if pair == (W, W) else self.lam_bend
        if not along > 0:
            return along
        sizes = calm_sizes(self.output, at.output, distance, pair[1])
        if sizes is None or not along > float(sizes.max()):
            return along
        return min(along, norm_by_blocks(self.output, pair, sizes))


def norm_of_slope(value: Value, slot: str) -> float:
    """Return an upper bound of ‖J‖ over the ball, using the rule by which the value is computed."""
    slope, rule = value.slopes.get(slot), value.rule
    if slope is None:
        return 0.0
    best = slope.norm + value.remainder(slot)
    if isinstance(rule, Elementwise):
        size, base = rule.jet[1].size.reshape(-1), rule.base.slopes[slot]
        rest = min(norm(size * base.rows.reshape(-1)), float(size.max()) * rule.base.remainder(slot))
        best = min(best, spectral_norm(size[:, None] * base.matrix) + rest)
    elif isinstance(rule, Linear):
        parts = [rule.norm_of(i) * norm_of_slope(x, slot) for i, x in enumerate(rule.inputs) if slot in x.slopes]
        best = min(best, math.fsum(parts))
    elif isinstance(rule, Normalised):
        best = min(best, float(rule.first.max()) * norm_of_slope(rule.x, slot))
    elif isinstance(rule, Bilinear):
        parts = [rule.norm_of(x) * norm_of_slope(y, slot) for x, y in ((rule.q, rule.p), (rule.p, rule.q))]
        best = min(best, math.inf if math.isnan(sum(parts)) else math.fsum(parts))
    return best * UP

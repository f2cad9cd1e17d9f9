"""What the faults of a hypergradient are looked for in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.trust.diagnosis import double
from boundcheck.trust.pieces import Pieces

NEARER = 0.1  # of the distance from what g should be at its w and v
NEGLIGIBLE = 1e-6  # a part this small, relative to the other, is not told apart


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the faults are looked for in: g, the problem at its λ, and the parts of what g should be.

    `base` has the parts at the w and v that belong to g, where they were given; `exact` those of ∇f.
    """

    problem: Problem
    g: Tensor
    exact: Pieces
    base: Pieces
    own_lam: Tensor
    rounding: float  # how far two vectors are apart that are equal but for rounding
    alpha: float | None = None  # the step, where Φ = w − α∇₁ℓ with one α
    previous: Tensor | None = None
    w_given: bool = False
    v_given: bool = False

    def off(self, h: Tensor) -> float:
        """‖g − h‖ for what g would be with a fault; infinite where that explains no more than w and v do."""
        return self.credible(self.apart(h))

    def apart(self, h: Tensor) -> float:
        """‖g − h‖."""
        return float((double(self.g) - double(h)).norm())

    def credible(self, distance: float) -> float:
        """The distance, if g is much nearer to what it would be with a fault than to what it should be at its w, v."""
        known = self.rounding < self.off_base < math.inf  # an error whose square overflows has no known length
        return distance if known and distance <= NEARER * self.off_base else math.inf

    @cached_property
    def off_base(self) -> float:
        """How far g is from what it should be at its w and v."""
        return self.apart(self.base.value)

    @property
    def two_parts(self) -> bool:
        """Whether both ∇₂E and ∂₂Φᵀv can be told apart from nothing."""
        direct, implicit = float(self.base.direct.norm()), float(self.base.implicit.norm())
        return min(direct, implicit) > NEGLIGIBLE * max(direct, implicit)

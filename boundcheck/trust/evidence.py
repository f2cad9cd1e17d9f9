"""The evidence in which an audit looks for faults of a hypergradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.trust.diagnosis import double
from boundcheck.trust.pieces import Pieces

NEARER = 0.1  # a fault must reduce the distance of g from its correct value at w and v to this fraction
NEGLIGIBLE = 1e-6  # a part this small, relative to the other part, is treated as 0


@dataclass(frozen=True, eq=False)
class Evidence:
    """The hypergradient g, the problem at its λ, and the parts of the correct hypergradient.

    `base` has the parts at the w and v that belong to g, if they were given; `exact` has the parts of ∇f.
    """

    problem: Problem
    g: Tensor
    exact: Pieces
    base: Pieces
    own_lam: Tensor
    rounding: float  # the distance of two vectors that are equal up to rounding
    alpha: float | None = None  # the step, if Φ = w − α∇₁ℓ with a single α
    previous: Tensor | None = None
    w_given: bool = False
    v_given: bool = False

    def off(self, h: Tensor) -> float:
        """‖g − h‖ for the hypergradient h with a fault; infinite if the fault explains no more than w and v do."""
        return self.credible(self.apart(h))

    def apart(self, h: Tensor) -> float:
        """‖g − h‖."""
        return float((double(self.g) - double(h)).norm())

    def credible(self, distance: float) -> float:
        """The distance, if it is much smaller than that of g from its correct value at w and v; else infinity."""
        known = self.rounding < self.off_base < math.inf  # an error whose square overflows has no known length
        return distance if known and distance <= NEARER * self.off_base else math.inf

    @cached_property
    def off_base(self) -> float:
        """The distance of g from its correct value at w and v."""
        return self.apart(self.base.value)

    @property
    def two_parts(self) -> bool:
        """Whether neither ∇₂E nor ∂₂Φᵀv is negligible."""
        direct, implicit = float(self.base.direct.norm()), float(self.base.implicit.norm())
        return min(direct, implicit) > NEGLIGIBLE * max(direct, implicit)

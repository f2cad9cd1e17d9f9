"""The step sizes of a descent with inexact values: which one to try first, and whether it decreased f enough.

Let ‖g − ∇f‖ ≤ θ‖g‖ with θ < 1. Then ⟨g, ∇f⟩ ≥ (1 − θ)‖g‖², so −g is a descent direction. If ∇f is L-Lipschitz, every
α ≤ (1 − θ)/L has f(λ − αg) ≤ f(λ) − ½(1 − θ)α‖g‖². A step is accepted if f surely falls by `SHARE`·(1 − θ)α‖g‖², even
with the errors of both values. So halving α ends for every L.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SHARE = 0.1  # the required share of the decrease (1 − θ)α‖g‖² that the slope predicts; below ½
FIRST = 0.1  # the length of the first step, relative to the length of the coordinates
GROWTH = 10.0  # the largest factor from one step size to the next
RULES = ("barzilai-borwein", "backtracking")


class Decrease(Enum):
    """Whether a step decreases f enough; `UNCLEAR` if the errors of the two values are too large to decide."""

    ENOUGH = "enough"
    TOO_LITTLE = "too little"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class ValueComparison:
    """The decrease of f from one point to the next, its error, and the required decrease."""

    gain: float  # f before minus f after
    doubt: float  # the sum of both errors
    needed: float

    @property
    def decrease(self) -> Decrease:
        if self.gain - self.doubt >= self.needed:
            return Decrease.ENOUGH
        return Decrease.TOO_LITTLE if self.gain + self.doubt < self.needed else Decrease.UNCLEAR


def shorter(alpha: float, gain: float, slope: float) -> float:
    """The next step size after one that was too long: the minimum of the parabola through both values and the slope."""
    excess = alpha * slope - gain  # the predicted decrease minus the actual one, due to curvature; positive
    best = alpha * slope * alpha / (2 * excess) if excess > 0 else alpha / 2
    return min(max(best, alpha / 10), alpha / 2)


def barzilai_borwein(alpha: float, moved: float, along: float) -> float:
    """‖Δx‖²/⟨Δx, Δg⟩ of the last step, within a factor `GROWTH` of the last step size."""
    longest = GROWTH * alpha
    return longest if along <= 0 else min(max(moved / along, alpha / GROWTH), longest)

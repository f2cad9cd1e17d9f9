"""The step sizes of a descent with inexact values: which one to try first, and whether it took f down enough.

Let ‖g − ∇f‖ ≤ θ‖g‖ with θ < 1. Then ⟨g, ∇f⟩ ≥ (1 − θ)‖g‖², so that −g is a descent direction, and where ∇f is
L-Lipschitz every α ≤ (1 − θ)/L has f(λ − αg) ≤ f(λ) − ½(1 − θ)α‖g‖². A step is taken if f falls by `SHARE`·(1 − θ)α‖g‖²
for certain, that is by more than the errors of both values; so halving α ends, whatever L is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SHARE = 0.1  # of the decrease (1 − θ)α‖g‖² that the slope promises; below ½
FIRST = 0.1  # of the length of the coordinates that the first step goes
GROWTH = 10.0  # at most, from one step size to the next
RULES = ("barzilai-borwein", "backtracking")


class Decrease(Enum):
    """Whether a step takes f down enough; `UNCLEAR` if the errors of the two values are too large to tell."""

    ENOUGH = "enough"
    TOO_LITTLE = "too little"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class ValueComparison:
    """f here and there, with the errors of both, and what the slope promises."""

    gain: float  # f here − f there
    doubt: float  # the errors of both
    needed: float

    @property
    def decrease(self) -> Decrease:
        if self.gain - self.doubt >= self.needed:
            return Decrease.ENOUGH
        return Decrease.TOO_LITTLE if self.gain + self.doubt < self.needed else Decrease.UNCLEAR


def shorter(alpha: float, gain: float, slope: float) -> float:
    """The next step size after one that was too long: the lowest point of the parabola of both values and the slope."""
    excess = alpha * slope - gain  # what the curvature took away from the promise, positive
    best = alpha * slope * alpha / (2 * excess) if excess > 0 else alpha / 2
    return min(max(best, alpha / 10), alpha / 2)


def barzilai_borwein(alpha: float, moved: float, along: float) -> float:
    """‖Δx‖²/⟨Δx, Δg⟩ of the last step, at most `GROWTH` times as long or short as that."""
    longest = GROWTH * alpha
    return longest if along <= 0 else min(max(moved / along, alpha / GROWTH), longest)

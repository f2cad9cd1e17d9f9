"""Lower and upper bounds on the error of a hypergradient, from a certified reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boundcheck.card import Card
from boundcheck.constants import Constant, Constants
from boundcheck.report import cards
from boundcheck.side import Side
from boundcheck.theory.catalogue import bounds
from boundcheck.theory.sides import combine

THEOREM = bounds["enclosure"]


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Lower and upper bounds on the error of a hypergradient: lower ≤ ‖g − ∇f(λ)‖ ≤ upper.

    Attributes
    ----------
    lower : ndarray
        A lower bound on the error: one number from `enclose`, an array of samples × t from `Report.enclosure`.
    upper : ndarray
        An upper bound on the error, of the same shape; infinite if no bound is known.
    side : Side
        How both bounds are known: `UPPER` or `EXACT` if they are proved, `HIGH_PROBABILITY` if they hold with
        probability 1 − `delta`, `LOWER` if they depend on estimates.
    delta : float
        The probability that the bounds are wrong; 0 by default.
    """

    lower: np.ndarray
    upper: np.ndarray
    side: Side
    delta: float = 0.0

    @property
    def ratio(self) -> np.ndarray:
        """upper/lower: 1 if the error is known exactly, infinity if it may be 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient: np.ndarray = np.where(self.upper == self.lower, 1.0, self.upper / self.lower)
        return quotient

    def __repr__(self) -> str:
        return f"Enclosure({self})"

    def __str__(self) -> str:
        return cards.enclosure_text(self)

    def _repr_html_(self) -> str:
        return Card(cards.enclosure_text(self)).html()


def enclosed(gaps: np.ndarray, certificates: Sequence[Constant | None]) -> Enclosure:
    """Enclose errors, given their distances to the references (a row for each λ) and the ε_g of each reference."""
    lower, upper = np.zeros(gaps.shape), np.full(gaps.shape, np.inf)
    for i, (gap, eps_g) in enumerate(zip(gaps, certificates, strict=True)):
        finite = np.isfinite(gap)
        if eps_g is not None:
            upper[i, finite] = THEOREM.evaluate(Constants({"eps_g": eps_g}), gap_t=gap[finite]).values
            lower[i, finite] = np.maximum(gap[finite] - eps_g.value, 0)
            lower[i, ~finite] = np.inf  # the run diverged
    combined = combine((eps_g, +1) for eps_g in certificates if eps_g is not None)
    return Enclosure(lower, upper, Side.LOWER if None in certificates else combined.side, combined.delta)

"""The requested accuracy of a hypergradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from boundcheck.errors import InputError
from boundcheck.report.accuracy import Accuracy


@dataclass(frozen=True)
class Tolerance:
    """The requirement ‖g − ∇f‖ ≤ rtol·‖∇f‖ + atol."""

    rtol: float
    atol: float

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if isinstance(value, bool) or not (isinstance(value, int | float | np.floating) and 0 <= value < math.inf):
                raise InputError(f"{name} = {value!r} is not a tolerance; give a positive number, such as {name}=0.1")
        if not (self.rtol > 0 or self.atol > 0):
            raise InputError("rtol and atol are both 0; give one of them, or use method='exact'")

    def allows(self, accuracy: Accuracy) -> bool:
        """Whether the error is surely within the tolerance: its upper end is."""
        return float(accuracy.error.upper) <= self.rtol * float(accuracy.gradient_norm.lower) + self.atol

    def refuses(self, accuracy: Accuracy) -> bool:
        """Whether the error is surely beyond the tolerance: its lower end is."""
        return float(accuracy.error.lower) > self.rtol * float(accuracy.gradient_norm.upper) + self.atol

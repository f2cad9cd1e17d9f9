"""Decide whether a fault explains an error: the hypergradient with this fault alone is near g, and not by chance."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

SHARE = 0.05  # an explanation may leave at most this share of the error
CHANCE = 1e-4  # the probability that an explanation fits a random error
AS_GOOD = 3  # an explanation counts as equally good if it leaves at most this many times as much as the best


@dataclass(frozen=True)
class Suspect:
    """A fault, and the distance from g to the hypergradient with this fault alone.

    `free` numbers were fitted to g, and the suspect is the best of `tries`. The probability of a fit by chance may be
    at most `chance` in total, and the fault may leave `share` of the error.
    """

    fault: str
    distance: float
    cause: str
    remedy: str
    free: int = 0
    tries: int = 1
    chance: float = CHANCE
    share: float = SHARE

    def limit(self, entries: float) -> float:
        """The largest share of the error that the fault may leave, for an error with this many entries that count.

        In m dimensions, a random error of length 1 is within r of a given point with probability about rᵐ, and within r
        of a given line with probability about r^(m−1).
        """
        dimensions = entries - self.free
        return 0.0 if dimensions <= 0 else min(self.share, (self.chance / self.tries) ** (1 / dimensions))


def entries_that_count(error: Tensor) -> float:
    """(Σ|e_i|)²/Σe_i²: n if all entries have the same size, 1 if one is much larger than the others."""
    size = error.abs()
    total = float((size / size.max()).square().sum()) if bool(size.max() > 0) else 0.0
    return float((size / size.max()).sum()) ** 2 / total if total else 0.0


@dataclass(frozen=True)
class Diagnosis:
    """The simplest of the best explanations, and another fault that fits equally well, if there is one."""

    best: Suspect
    other: Suspect | None = None


def simplest(explanations: Iterable[Suspect], error: Tensor, g: Tensor, rounding: float) -> Diagnosis | None:
    """The first explanation that fits as well as the best one; None if nothing explains the error.

    The remaining distance must be a small part of g too, because all small vectors are near each other. `rounding` is
    the distance of two vectors that are equal up to rounding.
    """
    entries, size = entries_that_count(error), min(float(error.norm()), float(g.norm()))
    fitting = [e for e in explanations if (limit := e.limit(entries)) > 0 and e.distance <= limit * size < math.inf]
    if not fitting:
        return None
    least = min(e.distance for e in fitting)
    good = [e for e in fitting if e.distance <= max(AS_GOOD * least, rounding)]
    return Diagnosis(good[0], next((e for e in good[1:] if e.fault != good[0].fault), None))


def double(x: Tensor) -> Tensor:
    """The vector in float64 on the CPU, for comparisons."""
    return x.detach().to(device="cpu", dtype=torch.float64)

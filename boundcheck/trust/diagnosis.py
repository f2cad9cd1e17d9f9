"""When a fault explains an error: what g would be with this fault alone is near g, and not by chance."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

SHARE = 0.05  # what an explanation may leave of the error
CHANCE = 1e-4  # how often an explanation may fit an error that is random
AS_GOOD = 3  # an explanation that leaves this many times as much is as good


@dataclass(frozen=True)
class Suspect:
    """A fault, and how far g is from what it would be with this fault alone.

    `free` numbers were fitted to g; it is the best of `tries`; it may be right by chance with `chance` in all, and
    may leave `share` of the error.
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
        """The largest part of the error that may be left, for an error of so many entries that count.

        A random error of length 1 in m dimensions is within r of one place with probability about rᵐ, and of a line
        with r^(m−1).
        """
        dimensions = entries - self.free
        return 0.0 if dimensions <= 0 else min(self.share, (self.chance / self.tries) ** (1 / dimensions))


def entries_that_count(error: Tensor) -> float:
    """(Σ|e_i|)²/Σe_i²: n where all entries are as large, 1 where one is much larger than the others."""
    size = error.abs()
    total = float((size / size.max()).square().sum()) if bool(size.max() > 0) else 0.0
    return float((size / size.max()).sum()) ** 2 / total if total else 0.0


@dataclass(frozen=True)
class Diagnosis:
    """The simplest of the explanations that fit best, and another one that fits as well, if there is one."""

    best: Suspect
    other: Suspect | None = None


def simplest(explanations: Iterable[Suspect], error: Tensor, g: Tensor, rounding: float) -> Diagnosis | None:
    """The first of those that fit as well as the best; None where nothing explains the error.

    What is left has to be a small part of g too: all small vectors are near each other. `rounding` is how far two
    vectors are apart that are equal but for rounding.
    """
    entries, size = entries_that_count(error), min(float(error.norm()), float(g.norm()))
    fitting = [e for e in explanations if (limit := e.limit(entries)) > 0 and e.distance <= limit * size < math.inf]
    if not fitting:
        return None
    least = min(e.distance for e in fitting)
    good = [e for e in fitting if e.distance <= max(AS_GOOD * least, rounding)]
    return Diagnosis(good[0], next((e for e in good[1:] if e.fault != good[0].fault), None))


def double(x: Tensor) -> Tensor:
    """A vector on the CPU in float64, in which all comparisons are made."""
    return x.detach().to(device="cpu", dtype=torch.float64)

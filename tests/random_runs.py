"""Runs on random instances of every family, and errors beside what is claimed to bound them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import runs
from instances import bilinear, descent, kinked, saturating
from runs import Array, Instance, norm
from stochastic_instances import NoiseAt, RandomRun

T = 30
SEEDS = range(16)
t, k = np.arange(T + 1)[:, None], np.arange(T + 1)[None, :]
FAMILIES: Mapping[str, Callable[[int], Instance]] = {
    "bilinear": bilinear,
    "saturating": saturating,
    "quadratic": descent,
    "log-cosh": partial(descent, log_cosh=True),
    "kinked": kinked,
    "value": partial(descent, value=True),
    "value log-cosh": partial(descent, log_cosh=True, value=True),
    "value kinked": partial(kinked, value=True),
}
ANY, SYMMETRIC, VALUE = tuple(FAMILIES), tuple(FAMILIES)[2:], tuple(FAMILIES)[5:]
NU_1_IS_0 = ("bilinear", "quadratic", "value")


@dataclass(frozen=True)
class Comparison:
    """An error and what is claimed to bound it, over the same grid of t or (t, k)."""

    instance: Instance | RandomRun | NoiseAt
    error: Array
    bound: Array

    @property
    def excess(self) -> float:
        """How far the error exceeds the bound beyond rounding.

        Errors are differences of vectors no larger than `scale`, from some 10² operations with condition numbers up to
        10³ at 2⁻⁵³: 1e-12 of the scale is a hundred times what rounding can do and far below any real violation.
        """
        scale = float(norm(self.instance.hypergradient)) + float(np.nanmax(self.error))
        return float(np.nanmax(self.error - self.bound * (1 + 1e-12))) - 1e-12 * (1 + scale)


@cache
def path(family: str, seed: int, from_0: bool) -> runs.Path:
    instance = FAMILIES[family](seed)
    return runs.iterate(instance, instance.w_0 * (not from_0), T)


@cache
def observed(family: str, seed: int, from_0: bool, solver: str) -> dict[str, Array]:
    return runs.observe(FAMILIES[family](seed), path(family, seed, from_0).w, T, solver)


QUADRATIC = ("quadratic", "value")

"""What is observed on runs of a problem, by method and name."""

from __future__ import annotations

import numpy as np

from boundcheck.methods import Method, parse
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.observables import NAMES, observe
from boundcheck.numerics.solvers.reference import reference

T, Q = 14, 0.9
Observed = dict[Method, dict[str, np.ndarray]]


def observed_runs(
    problem: Problem, methods: list[str], T: int = T, names: tuple[str, ...] = NAMES, **options
) -> Observed:
    result = reference(problem, problem.lam[None])
    return observe(problem, result, [parse(m) for m in methods], T, names, **{"q": Q, **options})

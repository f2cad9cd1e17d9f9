"""The quantities in the proofs that `check` measures: which ones, at which t, and as distances to w*."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from boundcheck.compare.judge import Observed
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.observables import NAMES
from boundcheck.theory.bound import Bound
from boundcheck.theory.kinds import BoundKind

AFFORDABLE = 4_000_000_000  # arithmetic operations for one of the matrices in the proofs, at all t together
# the number of t at which proofs are traced
TRACED_LARGE = 20  # if matrices are large
TRACED_SEVERAL = 60  # for several λ
TRACED_ONE = 10_000  # for one λ


@dataclass(frozen=True, eq=False)
class Observations:
    """The quantities in the proofs, at the first λ and at `ts`; see `judge.MethodRun` for the fields."""

    ts: np.ndarray
    from_reference: Mapping[Method, Observed]
    from_w_star: Mapping[Method, Observed]
    spectral: Mapping[Method, Observed]
    doubt: str


def distances_from_w_star(
    from_reference: Mapping[Method, Observed], distance: float, q: float | None, ts: np.ndarray
) -> dict[Method, Observed]:
    """Turn distances to the reference into bounds on distances to w*; w* is within `distance` of the reference."""
    more = {"r_t": np.full(ts.shape, distance)}
    if q is not None:  # Σ_{1≤j<t} q^(t−1−j)
        with np.errstate(over="ignore", invalid="ignore"):  # q > 1: no bound applies
            more["path_t"] = distance * (ts - 1.0 if q == 1 else (1 - q ** (ts - 1.0)) / (1 - q))
    return {m: {n: x + more[n] if n in more else x for n, x in of_m.items()} for m, of_m in from_reference.items()}


def traced_steps(problem: Problem, T: int, most: int) -> np.ndarray:
    """The t at which proofs are traced: every t, or as many as are affordable, including early t."""
    d, n = problem.d, problem.n
    count = max(TRACED_LARGE, min(most, AFFORDABLE // (d * d * (d + n))))
    if count >= T:
        return np.arange(1, T + 1)
    return np.unique(np.concatenate([np.geomspace(1, T, count // 2), np.linspace(1, T, count // 2)]).astype(int))


def names_of_observables(chosen: Sequence[Bound], methods: Sequence[Method], traced: bool) -> frozenset[str]:
    """The observables that the proofs, the a posteriori bounds and their conditions need for these methods."""
    used = {method.name for method in methods}
    fitting = [bound for bound in chosen if used & set(bound.methods) and bound.kind is not BoundKind.FROM_SPECTRUM]
    proofs = {name for bound in fitting if traced and bound.chain for name in bound.chain.observables}
    symbols = {symbol.name for bound in fitting for symbol in bound.primitive.free_symbols | bound.in_conditions}
    return frozenset({"r_t"} | proofs | symbols) & frozenset(NAMES)  # r_t shows whether w_t is in the ball

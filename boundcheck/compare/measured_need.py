"""Find the cheapest t and k with which a run reaches an accuracy: an estimate, for use where nothing is proved.

For AID, t and k are independent. One batch of runs gives the error curves at all t for k = 1, 2, 4, …. Further batches
try values of k between the neighbours of the cheapest k, until they could save at most 1% or the time is up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from boundcheck.compare.step_costs import Costs
from boundcheck.errors import BoundcheckError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.error_curves import error_curves

LENGTHS = (500, 2000, 8000)  # steps of runs without a guarantee; the next length is tried if the error still falls
AT_ONCE = 8  # values of k in every batch after the first
SECONDS = 5.0  # time limit of the search for one method; the first batch is always run
SLOWER = 8  # a run with four times as many steps takes about this many times as long
STILL_FALLING = 0.9  # try a longer run if the error at the end is at most this fraction of the error in the middle
SAVING = 0.01  # try other k only if they could save this share of the cost


@dataclass(frozen=True)
class Need:
    """The cheapest t and k with which a run was within an accuracy, and stayed there.

    Attributes
    ----------
    method : str
        The method.
    t : int
        The lower-level steps.
    k : int or None
        The steps of the linear solver; None for ITD.
    cost : float
        The cost, in lower-level steps.
    error : float
        The error at t and k.
    """

    method: str
    t: int
    k: int | None
    cost: float
    error: float


@dataclass(frozen=True, eq=False)
class NeedSearch:
    """The result of the runs of a method: the need, or the reason why there is none, and the error at the end."""

    need: Need | None
    steps: int  # the steps of the longest run
    error: float | None = None  # the error at the end of the longest run, with the largest k
    reason: str = ""
    still_falling: bool = False


def search(problem: Problem, method: str, eps: float, costs: Costs, memory: int) -> NeedSearch:
    """Find the need of a method without a guarantee, by runs of increasing length."""
    result, start = NeedSearch(None, 0), time.perf_counter()
    for steps in LENGTHS:
        before = time.perf_counter()
        result = within(problem, method, eps, costs, steps, steps, memory)
        took, spent = time.perf_counter() - before, time.perf_counter() - start
        if not result.still_falling or spent + SLOWER * took > SECONDS:
            break
    return result


def within(
    problem: Problem, method: str, eps: float, costs: Costs, steps: int, most_k: int, memory: int,
    only_last: bool = False,
) -> NeedSearch:  # fmt: skip
    """Find the need of a method within `steps` and `most_k`; with `only_last`, only the largest k is tried."""
    deadline = time.perf_counter() + (0 if only_last else SECONDS)
    first = [0] if method == "itd" else [most_k] if only_last else sorted({*_powers_of_two(most_k), most_k})
    try:
        curves = _curves(problem, method, first, steps, memory)
    except BoundcheckError as why:
        return NeedSearch(None, steps, reason=str(why).removesuffix(", or a smaller t"))  # `plan` has no argument t
    best = _cheapest(curves, method, eps, costs)
    end = float(curves[max(curves)][-1])
    if best is None:
        return _without_need(curves, steps)
    while time.perf_counter() < deadline and (new := _between_neighbours(curves, best, costs.ratio)):
        curves |= _curves(problem, method, new, steps, memory)
        best = _cheapest(curves, method, eps, costs) or best
    return NeedSearch(best, steps, end)


def _powers_of_two(most: int) -> Iterable[int]:
    return (2**i for i in range(most.bit_length()))


def _curves(problem: Problem, method: str, ks: Iterable[int], steps: int, memory: int) -> dict[int, np.ndarray]:
    """The errors at 1 … steps for each k (k = 0 for a method without k); infinite where the run diverged."""
    names = {k: f"{method}:{k}" if k else method for k in ks}
    errors = error_curves(problem, list(names.values()), steps, memory=memory)
    return {k: np.where(np.isfinite(errors[name][0]), errors[name][0], np.inf) for k, name in names.items()}


def _cheapest(curves: Mapping[int, np.ndarray], method: str, eps: float, costs: Costs) -> Need | None:
    needs = []
    for k, errors in curves.items():
        t = first_within(errors, eps)
        if t is not None:
            cost = t * (1 + costs.ratio) if method == "itd" else t + costs.ratio * k  # ITD goes back through all steps
            needs.append(Need(method, t, k or None, cost, float(errors[t - 1])))
    return min(needs, key=lambda need: (need.cost, need.t), default=None)


def _between_neighbours(curves: Mapping[int, np.ndarray], best: Need, ratio: float) -> list[int]:
    """A few new values of k between the neighbours of the cheapest k; empty if they cannot save enough."""
    if best.k is None:
        return []
    low = max((k for k in curves if k < best.k), default=best.k)
    high = min((k for k in curves if k > best.k), default=best.k)
    room = [k for k in range(low + 1, high) if k != best.k and ratio * k < best.cost]
    if not room or (high - low) * max(ratio, 1.0) < SAVING * best.cost:
        return []
    chosen = np.linspace(0, len(room) - 1, min(AT_ONCE, len(room))).round().astype(int)
    return sorted({room[i] for i in chosen})


def first_within(errors: np.ndarray, eps: float) -> int | None:
    """The first t (from 1) after which all errors stay at most eps; None if the last error is above."""
    outside = np.flatnonzero(~(errors <= eps))
    last = int(outside[-1]) + 1 if outside.size else 0
    return last + 1 if last < len(errors) else None


def _without_need(curves: Mapping[int, np.ndarray], steps: int) -> NeedSearch:
    """Describe errors that did not reach the accuracy: whether they diverge, or still fall at the end."""
    ks, half = sorted(curves), max(1, steps // 2)
    halfway = max((k for k in ks if 2 * k <= ks[-1]), default=ks[-1])
    end, middle, first = (float(curves[k][t - 1]) for k, t in ((ks[-1], steps), (halfway, half), (ks[0], 1)))
    if not math.isfinite(end) or (end > first and end > middle):
        return NeedSearch(None, steps, end, f"it diverges: its error after {steps} steps is {end:.1e}")
    falling = end <= STILL_FALLING * middle
    error_at_end = f"its error after {steps} steps is {end:.1e}{' and still falling' if falling else ''}"
    return NeedSearch(None, steps, end, error_at_end, falling)

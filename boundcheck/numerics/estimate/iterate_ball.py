"""A ball that contains all iterates of a stochastic solver for every possible draw."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.estimate.example_bounds import of_batch
from boundcheck.step_schedule import StepSchedule

ROUNDINGS = 64  # a computed step differs from the exact one by at most this many roundings of the numbers involved
HUGE = 1e12
MOST_STEPS = 20_000  # the most steps that are followed one by one
LARGER = [2.0**power for power in range(8)]  # factors of the balls that are tried for all later steps


def largest_distance(
    start: float, steps: StepSchedule, count: int, factors: Callable[[float], Tensor], pushes: Tensor,
    finite_sum: FiniteSum, size: float, dtype: torch.dtype, whole: Callable[[float], float] | None = None,
) -> float:  # fmt: skip
    """Return the largest r_i, i ≤ count; r_{i+1} is the largest mean of factor_j(η_i)·r_i + η_i·push_j in a minibatch.

    A step is the mean of the steps of its examples. So with r_0 ≥ ‖w_0 − w*‖, factor_j(η) ≥ ‖(1 − η)I + η∂₁Φ_j‖ and
    push_j ≥ ‖Φ_j(w*) − w*‖, r_i is at least ‖w_i − w*‖. Each step is larger by `ROUNDINGS` roundings of numbers of this
    size, for the arithmetic of the solver. Where it is less, whole(η_i)·r_i + η_i·push is taken, with the largest mean
    of push_j: examples that stretch in one direction and shrink in another may contract together.

    r_{i+1} is convex in η, and equal to r_i at η = 0. So if a step of size η stays in a ball, all smaller steps stay in
    it. If step sizes do not grow, one step that stays in the ball proves that all later steps do.

    Parameters
    ----------
    start : float
        The initial r_0.
    steps : StepSchedule
        The step sizes η_i.
    count : int
        The number of steps.
    factors : callable (eta) -> Tensor of shape (N,)
        The factors factor_j(η).
    pushes : Tensor of shape (N,)
        The numbers push_j.
    finite_sum : FiniteSum
        How minibatches are drawn.
    size : float
        The size of the other numbers in a step, apart from r_i.
    dtype : torch.dtype
        Their precision.
    whole : callable (eta) -> float, optional
        At least ‖(1 − η)I + η∂₁Φ̂‖ for every minibatch.

    Returns
    -------
    float
        Infinite if a bound exceeds 10¹², or if no ball is found for the steps after the first 20000.
    """
    unit = ROUNDINGS * torch.finfo(dtype).eps
    top = float(pushes.max())
    most_push = of_batch(finite_sum, pushes)
    eta, by, by_all = math.nan, pushes, math.inf

    def after(r: float, eta: float) -> float:
        each = of_batch(finite_sum, by * r + eta * pushes)
        return (each if whole is None else min(each, by_all * r + eta * most_push)) * (1 + 1e-15)

    def rounded(r: float, remaining: int) -> float:
        return r + remaining * unit * (size + r + top)

    r = largest = start
    for i in range(count):
        if (now := steps.at(i)) != eta:
            eta, by, by_all = now, factors(now), math.inf if whole is None else whole(now)
        falls = steps.switch is None or i >= steps.switch
        remaining = count - i
        if falls and after(largest, eta) <= largest:
            return rounded(largest, remaining)
        if i >= MOST_STEPS:
            sizes = [largest * factor for factor in LARGER] if falls else []
            return next((rounded(r, remaining) for r in sizes if after(r, eta) <= r), math.inf)
        r = rounded(after(r, eta), 1)
        largest = max(largest, r)
        if not r < HUGE:
            return math.inf
    return largest

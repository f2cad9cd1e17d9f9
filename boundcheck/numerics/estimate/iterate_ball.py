"""The ball that no iterate of a stochastic solver leaves, whatever is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.estimate.example_bounds import of_batch
from boundcheck.step_schedule import StepSchedule

ROUNDINGS = 64  # units of rounding of the numbers involved, by which a computed step may differ from an exact one
HUGE = 1e12
MOST_STEPS = 20_000  # steps that are followed one by one
LARGER = [2.0**power for power in range(8)]  # factors of the balls that are tried for all later steps


def largest_distance(
    start: float, steps: StepSchedule, count: int, factors: Callable[[float], Tensor], pushes: Tensor,
    finite_sum: FiniteSum, size: float, dtype: torch.dtype, whole: Callable[[float], float] | None = None,
) -> float:  # fmt: skip
    """The largest r_i with i ≤ count; r_{i+1} is the largest mean of factor_j(η_i)·r_i + η_i·push_j over a minibatch.

    A step is the mean of the steps of its examples. So with r_0 ≥ ‖w_0 − w*‖, factor_j(η) ≥ ‖(1 − η)I + η∂₁Φ_j‖ and
    push_j ≥ ‖Φ_j(w*) − w*‖, r_i is at least ‖w_i − w*‖. Each step is larger by `ROUNDINGS` roundings of numbers of this
    size, for the arithmetic of the solver. Where it is less, whole(η_i)·r_i + η_i·push is taken, with the largest mean
    of push_j: examples that stretch in one direction and shrink in another may contract together.

    A step is convex in η and leaves r as it is at η = 0. So where it does not lead out of a ball, no smaller η does,
    and a ball that one step does not leave is not left by the later ones, if these are no larger.

    Parameters
    ----------
    start : float
        r_0.
    steps : StepSchedule
        The η_i.
    count : int
        The number of steps.
    factors : callable (eta) -> Tensor of shape (N,)
        The factors of a step.
    pushes : Tensor of shape (N,)
        What a step adds for each unit of η.
    finite_sum : FiniteSum
        How minibatches are drawn.
    size : float
        The size of the numbers beside r_i that a step computes with.
    dtype : torch.dtype
        Their precision.
    whole : callable (eta) -> float, optional
        At least ‖(1 − η)I + η∂₁Φ̂‖ for every minibatch.

    Returns
    -------
    float
        Infinite if it is beyond 10¹², or nothing is known of it after 20000 steps.
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

"""The ball that no iterate of a stochastic solver leaves, whatever is drawn."""

from __future__ import annotations

from collections.abc import Callable

import torch

from boundcheck.step_schedule import StepSchedule

ROUNDINGS = 64  # units of rounding of the numbers involved, by which a computed step may differ from an exact one
HUGE = 1e12


def largest_distance(
    start: float, steps: StepSchedule, count: int, factor: Callable[[float], float], push: float, size: float,
    dtype: torch.dtype,
) -> float:  # fmt: skip
    """The largest of r_0, …, r_count, r_{i+1} = factor(η_i)·r_i + η_i·push.

    With r_0 ≥ ‖w_0 − w*‖, factor(η) ≥ ‖(1 − η)I + η∂₁Φ̂‖ and push ≥ ‖Φ̂(w*) − w*‖, r_i is at least ‖w_i − w*‖. Each
    step is larger by `ROUNDINGS` roundings of numbers of this size, for the arithmetic of the solver.

    Parameters
    ----------
    start : float
        r_0.
    steps : StepSchedule
        The η_i.
    count : int
        The number of steps.
    factor : callable (eta) -> float
        The factor of a step.
    push : float
        What a step adds for each unit of η.
    size : float
        The size of the numbers beside r_i that a step computes with.
    dtype : torch.dtype
        Their precision.

    Returns
    -------
    float
        Infinite if it is beyond 10¹².
    """
    unit = ROUNDINGS * torch.finfo(dtype).eps
    r = largest = start
    eta, by = None, 0.0
    for i in range(count):
        if (now := steps.at(i)) != eta:
            eta, by = now, factor(now)
        before = r
        r = by * r + now * push + unit * (size + r + push)
        largest = max(largest, r)
        if not r < HUGE:
            return float("inf")
        if r == before and steps.switch is None:
            break
    return largest

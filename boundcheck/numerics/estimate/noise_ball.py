"""The search for a ball around w* that no iterate leaves, which bounds of the examples on the ball prove."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import torch

from boundcheck.constants import Constant, Provenance
from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.estimate import derived_constants, noise_estimates
from boundcheck.numerics.estimate.example_bounds import ExampleBounds
from boundcheck.numerics.estimate.example_source import ExampleSource
from boundcheck.numerics.estimate.fixed_point_certificate import FixedPoint
from boundcheck.numerics.estimate.iterate_ball import ROUNDINGS, largest_distance
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule

TRIES = 5  # the number of balls that are tried
NEAR = 2  # a ball of at most this many r_0 is used for estimates if it gives no bound on the iterates
TOO_LARGE = "the steps are so large that no bound on the iterates can be proved"
ROOM = 1.1  # the radius of a ball divided by the distance that the last ball gave


def distance_to_solution(setting: Setting) -> Constant:
    """Return a bound on the distance between w* and the computed w*."""
    if isinstance(setting.fixed_point, FixedPoint):
        distance = setting.fixed_point.distance
        return Constant("distance", distance, Side.UPPER, Provenance(setting.fixed_point.how))
    problem = setting.problem
    closed = problem.known.everywhere(problem.lam) if isinstance(problem.known, ClosedForms) else ()
    by_name = {constant.name: constant for constant in closed}
    nothing = Constant("q", 0.0, Side.LOWER, Provenance("not known"))
    q = by_name.get("q", nothing)
    if q is nothing:
        return Constant("distance", float(setting.solution.residual_w[0]), Side.LOWER, Provenance("the residual of w"))
    length = float((problem.w0.cpu().double() - setting.w_star.cpu().double()).norm())
    r_0 = next(c for c in derived_constants.distances(problem, setting.solution, q, by_name) if c.name == "r_0")
    off = max(r_0.value - length, 0.0) + 1e-15 * (1 + length)
    return Constant("distance", off, r_0.side, r_0.provenance)


@dataclass(frozen=True, eq=False)
class IterateBall:
    """A ball with bounds of the examples on it. `escape` says why iterates may leave the ball; empty if none leaves."""

    radius: float
    bounds: ExampleBounds
    escape: str = ""


def ball_of_iterates(
    setting: Setting, finite_sum: FiniteSum, away: Constant, t: int, steps: StepSchedule
) -> IterateBall:
    """Return a ball that contains all iterates, as the bounds of the examples on it prove."""
    problem, w = setting.problem, setting.w_star
    start = float((problem.w0.cpu().double() - w.cpu().double()).norm()) * (1 + 1e-12) + away.value
    size = float(w.norm())

    def reach(bounds: ExampleBounds) -> float:
        from_w = away.value * (1 + torch.maximum(bounds.low.abs(), bounds.high.abs()))
        whole = partial(bounds.factor_of_batch, finite_sum=finite_sum)
        pushes = bounds.moves + from_w
        return largest_distance(start, steps, t, bounds.factors, pushes, finite_sum, size, problem.dtype, whole)

    source = ExampleSource.of(setting)
    if finite_sum.variance_factor == 0:
        radius = start + t * ROUNDINGS * torch.finfo(problem.dtype).eps * (size + 2 * start)
        return _without_noise(setting, source, radius, away)
    at_solution = noise_estimates.measured(setting, 0.0, source.doubt)
    radius = ROOM * reach(at_solution)
    if source.doubt:
        radius = max(start, radius) if math.isfinite(radius) else start
        return IterateBall(radius, noise_estimates.measured(setting, radius, source.doubt), source.doubt)
    escape, of_all = f"none of {TRIES} balls was large enough for all iterates", None
    for number in range(TRIES):
        if not math.isfinite(radius):
            escape = TOO_LARGE
            break
        setting.tell("bounding every example", number, TRIES)
        proved = source.on(w, radius + away.value)
        if isinstance(proved, str):
            return IterateBall(radius, noise_estimates.measured(setting, radius, proved), proved)
        needed = reach(proved)
        if needed <= radius:
            return IterateBall(needed, proved)
        if not math.isfinite(needed) and radius <= NEAR * start:
            return IterateBall(radius, proved, TOO_LARGE)
        of_all = of_all or proved
        radius = ROOM * needed
    if of_all is None:
        some = source.on_some(w, start + away.value, escape)
        if isinstance(some, str):
            of_all = noise_estimates.measured(setting, start, some)
        else:  # steps derived from how steep a few examples are would be too large for the others
            of_all = replace(some, low=at_solution.low, high=at_solution.high, moves=at_solution.moves)
    return IterateBall(start, of_all, escape)


def _without_noise(setting: Setting, source: ExampleSource, radius: float, away: Constant) -> IterateBall:
    """Every minibatch is all examples: no step leads away from w* but by rounding, where Φ is a contraction."""
    proved = source.doubt or source.on(setting.w_star, radius + away.value)
    if isinstance(proved, str):
        return IterateBall(radius, noise_estimates.measured(setting, radius, proved), proved)
    return IterateBall(radius, proved)

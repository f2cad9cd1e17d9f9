"""The t and k of one batch size in a plan for a mean square error: with bounds on the parts, or from runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from boundcheck.report.stochastic_curve import Measured
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule


@dataclass(frozen=True)
class BoundedPart:
    """A bound on one of the three parts of E‖g − ∇f‖², which are the bias squared and two variances.

    Attributes
    ----------
    quantity : Measured
        Which part: the bias, E V[g | w_t] or V[E[g | w_t]].
    value : float
        The bound; for the bias, the bound on the bias itself and not on its square.
    side : Side
        Whether the bound is proved, given the constants.
    bound_name : str
        The name of the bound.
    """

    quantity: Measured
    value: float
    side: Side
    bound_name: str

    @property
    def root(self) -> float:
        """The value in the unit of the hypergradient: the bias, or a standard deviation."""
        return self.value if self.quantity is Measured.BIAS else math.sqrt(self.value)


@dataclass(frozen=True)
class CheapestSplit:
    """The cheapest t and k of one batch size.

    Attributes
    ----------
    batch : int
        The examples in a minibatch.
    t : int
        The steps of the lower level.
    k : int
        The steps of the linear solver.
    steps : StepSchedule
        The steps η_i of the lower level.
    steps_v : StepSchedule
        The steps of the linear solver.
    bound : float
        The bound on the mean square error.
    cost : int
        The number of examples that a run evaluates: batch·(t + k + 1).
    side : Side
        Whether the bound is proved, given the constants.
    bound_name : str
        The name of the bound.
    parts : tuple of BoundedPart
        Bounds on the bias and on both variances. Each comes from a separate theorem, so their sum may exceed `bound`.
    """

    batch: int
    t: int
    k: int
    steps: StepSchedule
    steps_v: StepSchedule
    bound: float
    cost: int
    side: Side
    bound_name: str
    parts: tuple[BoundedPart, ...] = ()

    def part(self, quantity: Measured) -> BoundedPart | None:
        """The bound on one part; None if there is none."""
        return next((part for part in self.parts if part.quantity is quantity), None)


@dataclass(frozen=True)
class MeasuredSplit:
    """The t = k at which runs reached the mean square error, by the whole interval or only by the estimate.

    Attributes
    ----------
    batch : int
        The examples in a minibatch.
    t : int
        The steps of both iterations.
    steps : StepSchedule
        The steps of the lower level.
    steps_v : StepSchedule
        The steps of the linear solver.
    mse : float
        The measured mean square error.
    upper : float
        The upper end of its interval.
    runs : int
        The number of runs.
    cost : int
        The number of examples that one run evaluates.
    shares : mapping from Measured to float
        Estimates of the shares of the squared bias and of the variances in `mse`. They add up to 1; empty if unknown.
    """

    batch: int
    t: int
    steps: StepSchedule
    steps_v: StepSchedule
    mse: float
    upper: float
    runs: int
    cost: int
    shares: Mapping[Measured, float] = field(default_factory=dict)

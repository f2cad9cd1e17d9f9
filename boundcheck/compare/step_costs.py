"""How long a lower-level step and a step of the linear solver take on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import torch

from boundcheck.numerics.bilevel.derivatives import linearise
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem

TIMINGS = 7  # measurements; the median is taken


@dataclass(frozen=True)
class Costs:
    """How long steps take on this machine.

    Attributes
    ----------
    inner : float
        Seconds of a lower-level step.
    linear : float
        Seconds of a step of the linear solver.
    """

    inner: float
    linear: float

    @property
    def ratio(self) -> float:
        """The cost of a linear step in lower-level steps."""
        return self.linear / self.inner

    def of(self, method: str) -> Costs:
        """The same for a method: a step on the normal equations takes two products.

        Parameters
        ----------
        method : str
            The name of the method.

        Returns
        -------
        Costs
            With the seconds of one step of its linear solver.
        """
        return replace(self, linear=2 * self.linear) if method == "aid-cgn" else self


@torch.no_grad()
def measure(problem: Problem) -> Costs:
    """Measure both steps: the median of several timings, without the first."""
    prepared = Prepared(problem, problem.lam)
    z = problem.dynamics.start(problem.w0)
    linearised = linearise(problem, problem.w0, prepared)
    v = torch.ones_like(problem.w0)

    def seconds(step: Callable[[], object]) -> float:
        times = []
        for _ in range(TIMINGS + 1):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        return median(times[1:])

    return Costs(seconds(lambda: problem.psi_at(z, prepared.ready)), seconds(lambda: linearised.d1_T(v)))

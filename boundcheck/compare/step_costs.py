"""Measure the times of a lower-level step and of a step of the linear solver on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import torch

from boundcheck.numerics.bilevel.derivatives import linearise
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem

TIMINGS = 7  # the number of timings; the result is their median


@dataclass(frozen=True)
class Costs:
    """The times of steps on this machine.

    Attributes
    ----------
    inner : float
        The time of a lower-level step in seconds.
    linear : float
        The time of a step of the linear solver in seconds.
    """

    inner: float
    linear: float

    @property
    def ratio(self) -> float:
        """The cost of a linear step in lower-level steps."""
        return self.linear / self.inner

    def of(self, method: str) -> Costs:
        """The costs for a method; a step on the normal equations takes two products.

        Parameters
        ----------
        method : str
            The name of the method.

        Returns
        -------
        Costs
            The costs, with the time of one step of the method's linear solver.
        """
        return replace(self, linear=2 * self.linear) if method == "aid-cgn" else self


@torch.no_grad()
def measure(problem: Problem) -> Costs:
    """Measure both steps: the median of several timings, after a first one that does not count."""
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

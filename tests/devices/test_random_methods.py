"""The random methods on a device that pretends, and in every dtype: as on the CPU, with minibatches drawn there."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from cases import DTYPES
from pretend import DEVICE, host, pretending
from small import small

import boundcheck as bc
from boundcheck.methods import RANDOM_METHODS
from boundcheck.numerics.solvers.neumann import run_neumann
from boundcheck.numerics.solvers.sid import run_sid
from boundcheck.numerics.solvers.stochastic_runs import SidRuns
from boundcheck.step_schedule import StepSchedule

HALF = StepSchedule.constant(0.5)
OPTIONS = {"size": 6, "features": 4, "batch": 2}


def run(method: str, problem: bc.Problem, steps: int) -> SidRuns:
    if method == "sid":
        return run_sid(problem, steps, steps, steps=HALF, steps_v=HALF, runs=3, seed=1, pairs=True)
    return run_neumann(problem, steps, 3, steps=HALF, runs=3, seed=1, pairs=True)


@DTYPES
@pytest.mark.parametrize("method", RANDOM_METHODS)
def test_results_are_those_of_the_cpu(method: str, dtype: torch.dtype) -> None:
    same = run(method, small("lr", dtype=dtype, **OPTIONS), 4)
    with pretending():
        result = run(method, small("lr", dtype=dtype, device=DEVICE, **OPTIONS), 4)
    for name in ("w", "v", "value", "value_again"):
        there, here = getattr(result, name)[0], getattr(same, name)[0]
        assert there.dtype == here.dtype == dtype
        assert (host(there) - here).abs().max() <= 100 * torch.finfo(dtype).eps * here.abs().max()


def test_steps_wait_for_nothing_but_their_minibatch() -> None:
    """Six more steps of w and of v copy twelve more minibatches to the device, and ask it nothing."""
    with pretending():
        problem = small("lr", device=DEVICE, **OPTIONS)
    waits: list[Counter[str]] = []
    for steps in (2, 8):
        with pretending() as counted:
            run("sid", problem, steps)
        waits.append(counted)
    more = waits[1] - waits[0]
    copies = sum(count for what, count in more.items() if what.startswith("copy to"))
    assert sum(more.values()) == copies == 3 * 6, more  # a chain of w, and two of v

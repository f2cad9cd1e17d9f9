"""SID, stochastic implicit differentiation: Algorithm 1 of Grazzi, Pontil, Salzo 2021, many independent runs at once.

    w_{i+1} = w_i + η_i(Φ̂(w_i, ζ_i) − w_i)                          i < t
    v_{i+1} = v_i + η'_i(∂₁Φ̂(w_t, ζ'_i)ᵀv_i + ∇₁E(w_t) − v_i)        i < k
    g = ∇₂E(w_t) + ∂₂Φ̂(w_t, ζ'')ᵀv_k

All minibatches are independent: those of w, of v, the last one, and those of different runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.solvers.stochastic_chain import Draws, MinibatchMaps
from boundcheck.numerics.solvers.stochastic_runs import RunRequest, SidRuns, run_all
from boundcheck.progress import Progress, counted
from boundcheck.step_schedule import StepSchedule

__all__ = ["SidRuns", "linear_steps", "run_sid"]


@on_few_threads
def run_sid(
    problem: Problem,
    t: int,
    k: int,
    *,
    steps: StepSchedule,
    steps_v: StepSchedule,
    runs: int,
    seed: int,
    w0: Tensor | None = None,
    v0: Tensor | None = None,
    grid: Sequence[tuple[int, int]] | None = None,
    pairs: bool = False,
    independent: bool = True,
    memory: int = 1 << 30,
    progress: Progress | None = None,
) -> SidRuns:
    """Run SID many times, with independent minibatches.

    A run has one chain of w. At each t of the grid it has a chain of v of its own, up to the largest k there, and its
    own last minibatch. But for rounding, the result at a point of the grid depends neither on the other points nor on
    `t`, `k` and `memory`.

    Parameters
    ----------
    problem : Problem
        A problem with data.
    t : int
        The steps for w.
    k : int
        The steps for v.
    steps : StepSchedule
        The steps η_i for w.
    steps_v : StepSchedule
        The steps η'_i for v.
    runs : int
        How many runs.
    seed : int
        The seed of all draws.
    w0 : Tensor of shape (d,) or (runs, d), optional
        The start of w; that of the problem by default.
    v0 : Tensor of shape (d,) or (runs, d), optional
        The start of v; 0 by default.
    grid : sequence of (t, k), optional
        Where results are asked for; at the given t and k only by default, which no point of the grid may exceed.
    pairs : bool
        Whether to continue each run from each w_t a second time, with other minibatches for v and the last product;
        False by default.
    independent : bool
        False uses one minibatch of each run for everything: a wrong method, for tests that show it. True by default.
    memory : int
        The budget in bytes; 1 GiB by default.
    progress : callable (what, done, of) -> None, optional
        Called with what is being done, how much of it is done, and of how much.

    Returns
    -------
    SidRuns
        w_t, v_k and the hypergradients at each point of the grid.

    Raises
    ------
    InputError
        If the problem has no examples, or an argument cannot be used.
    DivergenceError
        If an iterate is not finite; the message says in which step.
    UserCodeError
        If a function of the user raises.

    Examples
    --------
    >>> import boundcheck as bc
    >>> from boundcheck.numerics.solvers.sid import run_sid
    >>> from boundcheck.step_schedule import StepSchedule
    >>> problem = bc.problems.logistic_regression(size=20, features=5, batch=4)
    >>> half = StepSchedule.constant(0.5)
    >>> result = run_sid(problem, 10, 10, steps=half, steps_v=half, runs=100, seed=0)
    >>> result.value[0].shape
    torch.Size([100, 5])
    """
    plan = RunRequest.of(
        require_problem(problem), "sid", t, k, steps, runs, seed, w0, v0, grid, pairs, independent, memory
    )
    return run_all(plan, partial(_linear_chain, steps_v), progress)


def _linear_chain(
    steps: StepSchedule, batches: MinibatchMaps, w: Tensor, b: Tensor, v: Tensor, ks: Sequence[int], draws: Draws,
    lengths: torch.Generator,
) -> Iterator[Tensor]:  # fmt: skip
    """v_k for each k, which increase."""
    iterates = linear_steps(batches, w, b, v, steps, max(ks), draws)
    wanted = set(ks)
    if 0 in wanted:
        yield v
    for i, v in enumerate(counted(iterates, "stochastic steps of v", max(ks)), 1):
        if i in wanted:
            yield v


def linear_steps(
    batches: MinibatchMaps, w: Tensor, b: Tensor, v: Tensor, steps: StepSchedule, k: int, draws: Draws
) -> Iterator[Tensor]:
    """v_1 … v_k of every run, for w = w_t and b = ∇₁E(w_t)."""
    for i in range(k):
        v = torch.lerp(v, batches.d1_T(w, v, draws.take(w.device)).add_(b), steps.at(i))
        yield v

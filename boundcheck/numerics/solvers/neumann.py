"""The truncated Neumann series with a random length of Ghadimi and Wang 2018, in many independent runs at once.

    w_{i+1} = w_i + η_i(Φ̂(w_i, ζ_i) − w_i)                     i < t
    v = K ∂₁Φ̂(w_t, ζ_1)ᵀ ⋯ ∂₁Φ̂(w_t, ζ_p)ᵀ ∇₁E(w_t)             p uniform on 0 … K − 1
    g = ∇₂E(w_t) + ∂₂Φ̂(w_t, ζ'')ᵀv

For a given w_t, the expectation of v is Σ_{j<K} (∂₁Φᵀ)^j ∇₁E(w_t), the result v_K of K fixed-point iterations from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.solvers.stochastic_chain import Draws, MinibatchMaps
from boundcheck.numerics.solvers.stochastic_runs import RunRequest, SidRuns, run_all
from boundcheck.progress import Progress, counted
from boundcheck.step_schedule import StepSchedule


@on_few_threads
def run_neumann(
    problem: Problem,
    t: int,
    K: int,
    *,
    steps: StepSchedule,
    runs: int,
    seed: int,
    w0: Tensor | None = None,
    grid: Sequence[tuple[int, int]] | None = None,
    pairs: bool = False,
    memory: int = 1 << 30,
    progress: Progress | None = None,
) -> SidRuns:
    """Run the truncated Neumann series with a random length many times, with independent minibatches.

    The iterates w_i are the same as in `run_sid` with the same seed and steps.

    Parameters
    ----------
    problem : Problem
        A problem with data.
    t : int
        The number of steps for w.
    K : int
        The length of the series, at least 1. A run has (K − 1)/2 products on average.
    steps : StepSchedule
        The step sizes η_i for w.
    runs : int
        The number of runs.
    seed : int
        The seed of all draws.
    w0 : Tensor of shape (d,) or (runs, d), optional
        The start of w; by default the start of the problem.
    grid : sequence of (t, K), optional
        The points at which results are returned, none beyond `t` and `K`; by default (t, K) alone.
    pairs : bool
        Whether to continue each run from each w_t a second time, with other draws; False by default.
    memory : int
        The memory budget in bytes; 1 GiB by default.
    progress : callable (what, done, of) -> None, optional
        Called with a description of the current stage, the amount done and the total.

    Returns
    -------
    SidRuns
        w_t, v and the hypergradients at each point of the grid.

    Raises
    ------
    InputError
        If the problem has no examples, or if an argument is not valid.
    DivergenceError
        If an iterate is not finite.
    UserCodeError
        If a function of the user raises an error.

    Examples
    --------
    >>> import boundcheck as bc
    >>> from boundcheck.numerics.solvers.neumann import run_neumann
    >>> from boundcheck.step_schedule import StepSchedule
    >>> problem = bc.problems.logistic_regression(size=20, features=5, batch=4)
    >>> run_neumann(problem, 10, 5, steps=StepSchedule.constant(0.5), runs=100, seed=0).value[0].shape
    torch.Size([100, 5])
    """
    plan = RunRequest.of(
        require_problem(problem), "neumann", t, K, steps, runs, seed, w0, None, grid, pairs, True, memory
    )
    return run_all(plan, _series, progress)


def _series(
    batches: MinibatchMaps, w: Tensor, b: Tensor, v: Tensor, ks: Sequence[int], draws: Draws, lengths: torch.Generator
) -> Iterator[Tensor]:
    """Yield the vectors v for each length K, with random lengths and minibatches of their own."""
    for K in ks:
        p, order = torch.randint(K, (len(w),), generator=lengths, device="cpu").sort(descending=True)
        counts = [int((p >= j).sum()) for j in range(1, K)]
        order = order.to(w.device)
        sorted_w, v = w[order], b[order]
        for count in counted(counts, "products of the Neumann series"):
            indices = draws.take(w.device)[:count]
            if count:
                v[:count] = batches.d1_T(sorted_w[:count], v[:count], indices)
        yield torch.empty_like(v).index_copy_(0, order, v).mul_(K)

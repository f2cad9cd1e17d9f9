"""SID against hypertorch's `fixed_point(stochastic=True)`: the same numbers from the same minibatches, and the time.

BOUNDCHECK_HYPERTORCH names a clone of prolearner/hypertorch; without it nothing is run. hypertorch draws inside of
`fp_map`, so here `fp_map` takes the indices of one run of SID, one after the other. It takes full steps, η = 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain

import torch
from rivals import hypertorch_way
from torch import Tensor
from torch.autograd import grad

import boundcheck as bc
from boundcheck.numerics.solvers.sid import run_sid
from boundcheck.numerics.solvers.stochastic_chain import LAST, LINEAR, LOWER, generator
from boundcheck.step_schedule import StepSchedule

T, RUNS, SHOWN = 100, 2000, 5
FULL = StepSchedule.constant(1.0)
AGREES = 1e-10  # relative, of 200 steps in another order of operations


def indices_of(problem: bc.Problem, run: int) -> Iterator[Tensor]:
    """The minibatches of one of the runs, in the order in which they are used."""
    sums, cpu = problem.finite_sum, torch.device("cpu")
    assert sums is not None
    counts = ((generator(0, LOWER), T), (generator(0, LINEAR, T), T), (generator(0, LAST, T), 1))
    drawn = ((sums.draw(source, RUNS, cpu)[run] for _ in range(count)) for source, count in counts)
    return iter(list(chain.from_iterable(drawn)))


def rival(problem: bc.Problem, indices: Iterator[Tensor]) -> Tensor:
    """One run by hypertorch, with a gradient step as its users write it."""
    hypergrad, sums = hypertorch_way.library(), problem.finite_sum
    assert sums is not None
    inner_on, alpha = sums.inner_on, float(problem.prepare(problem.lam).steps.alpha)
    assert inner_on is not None

    def fp_map(params: list[Tensor], hparams: list[Tensor]) -> list[Tensor]:
        loss = inner_on(params[0], problem.prepare(hparams[0]), next(indices))
        return [params[0] - alpha * grad(loss, params, create_graph=True)[0]]

    lam = problem.lam.detach().requires_grad_()
    w = problem.w0.clone()
    for _ in range(T):
        w = fp_map([w.requires_grad_()], [lam])[0].detach()
    result: Tensor = hypergrad.fixed_point(
        [w], [lam], T, fp_map, lambda p, h: problem.outer(p[0], h[0]), tol=0.0, set_grad=False, stochastic=True
    )[0]
    return result


def main() -> int:
    if hypertorch_way.library() is None:
        print("BOUNDCHECK_HYPERTORCH names no clone of hypertorch, so there is nothing to compare with")
        return 0
    torch.set_num_threads(1)
    problem = bc.problems.logistic_regression(batch=10, low=5.0)
    start = time.process_time()
    values = run_sid(problem, T, T, steps=FULL, steps_v=FULL, runs=RUNS, seed=0).value[0]
    ours = (time.process_time() - start) / RUNS
    worst, seconds = 0.0, 0.0
    for run in range(SHOWN):
        indices = indices_of(problem, run)
        start = time.process_time()
        theirs = rival(problem, indices)
        seconds += (time.process_time() - start) / SHOWN
        worst = max(worst, float((theirs - values[run]).norm() / theirs.norm()))
    print(f"lr, minibatches of 10, t = k = {T}: {SHOWN} hypergradients differ by {worst:.1e} at most, relative")
    print(f"one run: hypertorch {1e3 * seconds:.1f} ms, {RUNS} at once {1e3 * ours:.2f} ms each: x{seconds / ours:.0f}")
    return int(worst > AGREES)


if __name__ == "__main__":
    raise SystemExit(main())

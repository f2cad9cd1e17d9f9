"""Many runs of SID at once against the bare products by hand, as ratios: ``python benchmarks/stochastic.py``.

The bare products are the same gathers and batched products of matrices, with the same indices and as many steps, in a
tight loop without a library around it. `--runs` and `--steps` change the size. Seconds are of the processor, on one
thread. What is written by a user is plain torch: its derivatives come from autograd.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from clock import race_of_processors
from torch import Tensor
from torch.nn.functional import softplus

import boundcheck as bc
from boundcheck.numerics.solvers.sid import run_sid
from boundcheck.numerics.solvers.stochastic_chain import LAST, LINEAR, LOWER, generator
from boundcheck.problems.logistic_regression import generate
from boundcheck.step_schedule import StepSchedule

MOST = 3.0  # times the bare products
STEPS = StepSchedule.constant(0.05)


@dataclass(frozen=True, eq=False)
class Data:
    """The numbers of lr: rows −y x to train and to validate on, λ, and the step α."""

    U: Tensor
    U_val: Tensor
    lam: Tensor
    alpha: float
    batch: int


def data_of(size: int, features: int, batch: int) -> tuple[bc.Problem, Data]:
    """The built-in problem and its numbers."""
    problem = bc.problems.logistic_regression(size=size, features=features, batch=batch)
    numbers = generate(seed=0, dtype=torch.float64, device="cpu", size=size, features=features, noise=0.1)
    U, U_val = -numbers.y[:, None] * numbers.X, -numbers.y_val[:, None] * numbers.X_val
    return problem, Data(U, U_val, problem.lam, float(problem.prepare(problem.lam).steps.alpha), batch)


def by_user(data: Data) -> bc.Problem:
    """The same problem as a user writes it, with the mean in place of the sum."""
    size = len(data.U)

    def inner_loss(w: Tensor, lam: Tensor, batch: Tensor) -> Tensor:
        return size * softplus(batch @ w).mean() + (lam * w**2).sum() / 2

    def outer_loss(w: Tensor, lam: Tensor) -> Tensor:
        return softplus(data.U_val @ w).sum()

    return bc.Problem.from_loss(
        inner_loss, outer_loss, torch.zeros_like(data.lam), data.lam, data.alpha, data=data.U, batch=data.batch
    )


def bare(data: Data, drawn: dict[int, list[Tensor]], runs: int) -> Tensor:
    """The products by hand."""
    U, scale, eta = data.U, len(data.U) / data.batch, STEPS.at(0)
    shape = (runs, data.batch, U.shape[1])
    w = torch.zeros(runs, U.shape[1], dtype=U.dtype)
    for indices in drawn[LOWER]:
        some = U.index_select(0, indices).view(shape)
        s = torch.bmm(some, w[..., None]).sigmoid_()
        gradient = torch.bmm(some.mT, s)[..., 0].mul_(scale).addcmul_(data.lam, w)
        w = w.sub(gradient, alpha=data.alpha * eta)
    b = torch.sigmoid(w @ data.U_val.T) @ data.U_val
    v = torch.zeros_like(w)
    for indices in drawn[LINEAR]:
        some = U.index_select(0, indices).view(shape)
        s = torch.bmm(some, w[..., None]).sigmoid_()
        s = (s * (1 - s)).mul_(torch.bmm(some, v[..., None]))
        product = torch.bmm(some.mT, s)[..., 0].mul_(scale).addcmul_(data.lam, v)
        v = v.sub(product, alpha=data.alpha * eta).add_(b, alpha=eta)
    return -data.alpha * w * v


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=200)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    runs, t = asked.runs, asked.steps
    problem, data = data_of(50, 100, 10)
    sums, device = problem.finite_sum, torch.device("cpu")
    assert sums is not None
    drawn = {}
    for purpose, at in ((LOWER, 0), (LINEAR, t), (LAST, t)):
        source = generator(0, purpose, at)
        drawn[purpose] = [sums.draw(source, runs, device).flatten() for _ in range(t)]

    def sid(problem: bc.Problem) -> Tensor:
        return run_sid(problem, t, t, steps=STEPS, steps_v=STEPS, runs=runs, seed=0).value[0]

    expected, slow = bare(data, drawn, runs), 0
    user = by_user(data)
    exact = bc.hypergradient(problem, "exact").value

    def errors(problem: bc.Problem) -> Tensor:
        return (sid(problem) - exact).norm(dim=1)

    by_hand, shipped, users = race_of_processors(
        lambda: bare(data, drawn, runs), lambda: errors(problem), lambda: errors(user), repeat=3, warm=False
    )
    print(f"the errors of {runs} runs of SID, t = k = {t}, lr with minibatches of {data.batch}; bare {by_hand:.2f} s")
    for name, each, seconds in (("built-in", problem, shipped), ("by a user", user, users)):
        off = float((sid(each) - expected).abs().max() / expected.abs().max())
        ratio = seconds / by_hand
        slow += ratio > MOST or off > 1e-9
        print(
            f"{name:10s} {seconds:6.2f} s, x{ratio:.2f} of the bare products (at most {MOST:g}); differs by {off:.1e}"
        )
    return slow


if __name__ == "__main__":
    raise SystemExit(main())

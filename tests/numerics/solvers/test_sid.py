"""SID takes the steps of its algorithm box, its draws are independent, and its means are what they should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from random_instances import EXAMPLES, Z, derivatives, expected_sid, layer, misses, outer_gradients
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import boundcheck as bc
from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.bilevel.dynamics import heavy_ball
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.sid import run_sid
from boundcheck.numerics.solvers.stochastic_chain import LAST, LINEAR, LOWER, generator
from boundcheck.numerics.solvers.stochastic_runs import SidRuns
from boundcheck.step_schedule import StepSchedule

FULL = StepSchedule.constant(1.0)
SHRINKING, SLOWER = StepSchedule(0.8, 2, 1.0, 2.0), StepSchedule(0.7, 1, 1.0, 2.0)
RUNS = 4000


def sid(problem: Problem, t: int, k: int, runs: int = 5, **options: Any) -> SidRuns:
    settings: dict[str, Any] = {"steps": SHRINKING, "steps_v": SLOWER, "seed": 7, "runs": runs, **options}
    return run_sid(problem, t, k, **settings)


def by_hand(problem: Problem, run: int, runs: int, t: int, k: int, copy: int) -> tuple[Tensor, Tensor, Tensor]:
    """One run in plain steps with dense matrices, from the same draws."""
    sums = problem.finite_sum
    assert sums is not None
    ready, device = problem.prepare(problem.lam), torch.device("cpu")
    lower, linear, last = (generator(7, *key) for key in ((LOWER,), (LINEAR, t, copy), (LAST, t, copy)))
    w = problem.w0
    for i in range(t):
        indices = sums.draw(lower, runs, device)[run]
        w = w + SHRINKING.at(i) * (sums.phi_on(w, ready, indices) - w)
    b, outer_lam = outer_gradients(problem, w)
    v = torch.zeros_like(w)
    for i in range(k):
        indices = sums.draw(linear, runs, device)[run]
        v = v + SLOWER.at(i) * (derivatives(problem, w, indices).d1.T @ v + b - v)
    indices = sums.draw(last, runs, device)[run]
    return w, v, outer_lam + derivatives(problem, w, indices).d2.T @ v


@pytest.mark.parametrize("replacement", [True, False])
def test_steps_are_those_of_the_algorithm(replacement: bool) -> None:
    """The same numbers of operations in another order: 100 roundings of numbers of size 1."""
    problem = layer(replacement=replacement)
    result = sid(problem, 4, 5, grid=[(4, 5), (2, 3), (4, 0)], pairs=True)
    for j, (t, k) in enumerate(result.grid):
        for run in range(5):
            w, v, value = by_hand(problem, run, 5, t, k, 0)
            again = by_hand(problem, run, 5, t, k, 1)[2]
            found = (result.w[j][run], result.v[j][run], result.value[j][run], result.value_again[j][run])
            for x, y in zip(found, (w, v, value, again), strict=True):
                assert (x - y).abs().max() <= 100 * 2.3e-16


def test_results_depend_on_the_seed_alone() -> None:
    problem, many = layer(), {"runs": 200}
    result = sid(problem, 3, 4, **many)
    small = sid(problem, 3, 4, **many, memory=60_000)
    larger = sid(problem, 6, 9, **many, grid=[(6, 9), (3, 9), (3, 4)], pairs=True)
    assert torch.equal(result.value[0], sid(problem, 3, 4, **many).value[0])
    for other in (small.value[0], larger.value[2]):
        assert (result.value[0] - other).abs().max() <= 100 * 2.3e-16
    assert (result.value[0] - sid(problem, 3, 4, **many, seed=8).value[0]).abs().max() > 0.01


def test_generators_differ() -> None:
    """No two purposes, t or copies have the same numbers, at neighbouring seeds either."""
    firsts = [
        int(torch.randint(2**62, (1,), generator=generator(seed, purpose, t, copy)))
        for seed in (0, 1, 2, 3) for purpose in (LOWER, LINEAR, LAST) for t in (0, 1, 2, 50) for copy in (0, 1)
    ]  # fmt: skip
    assert len(set(firsts)) == len(firsts)


def test_mean_of_the_hypergradient_given_w() -> None:
    problem = layer()
    values = sid(problem, 0, 4, RUNS).value[0]
    assert misses(values, expected_sid(problem, problem.w0, 4, SLOWER)) <= Z


def test_one_minibatch_for_everything_is_biased() -> None:
    """On this problem, by far more than chance."""
    problem = layer(batch=1)
    expected = expected_sid(problem, problem.w0, 4, SLOWER)
    assert misses(sid(problem, 0, 4, RUNS).value[0], expected) <= Z
    assert misses(sid(problem, 0, 4, RUNS, independent=False).value[0], expected) >= 2 * Z


def test_what_follows_does_not_depend_on_the_draws_of_w() -> None:
    """After one step with one example there are as many w_1 as examples; the mean over all of them is exact."""
    problem, sums = layer(batch=1), layer(batch=1).finite_sum
    assert sums is not None
    ready = problem.prepare(problem.lam)
    every = [sums.phi_on(problem.w0, ready, torch.tensor([i])) for i in range(EXAMPLES)]
    expected = torch.stack([expected_sid(problem, w, 3, SLOWER) for w in every]).mean(0)
    assert misses(sid(problem, 1, 3, RUNS, steps=FULL).value[0], expected) <= Z
    assert misses(sid(problem, 1, 3, RUNS, steps=FULL, independent=False).value[0], expected) >= 2 * Z


def test_mean_of_an_affine_chain() -> None:
    """The mean of w_t is the chain of the mean map, where that is affine."""
    A, c = torch.linspace(-0.9, 0.9, 8, dtype=torch.float64), torch.linspace(1, 2, 8, dtype=torch.float64).sin()

    def fp_map(w: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        A, c = batch
        return (A[:, None] * w + c[:, None] * lam).mean(0)

    w = torch.ones(2, dtype=torch.float64)
    problem = bc.Problem.from_map(fp_map, lambda w, lam: (w * lam).sum(), w, w / 2, data=(A, c), batch=2)
    values = sid(problem, 4, 1, RUNS).w[0]
    for i in range(4):
        w = w + SHRINKING.at(i) * (A.mean() * w + c.mean() * problem.lam - w)
    assert misses(values, w) <= Z


def test_second_continuations_are_independent() -> None:
    """All start from one w, so that the two hypergradients of a run are uncorrelated."""
    result = sid(layer(), 0, 4, RUNS, pairs=True)
    both = torch.cat((result.value[0][:, :1], result.value_again[0][:, :1]), dim=1)
    assert both.T.corrcoef()[0, 1].abs() <= Z / RUNS**0.5
    assert misses(result.value_again[0], expected_sid(layer(), layer().w0, 4, SLOWER)) <= Z


def test_all_examples_at_once_with_full_steps_is_aid_fp() -> None:
    problem = layer(batch=EXAMPLES, replacement=False)
    result = sid(problem, 9, 7, steps=FULL, steps_v=FULL)
    expected = bc.hypergradient(problem, "aid-fp", 9, 7)
    assert (result.w[0] - expected.w).abs().max() <= 100 * 2.3e-16
    assert (result.value[0] - expected.value).abs().max() <= 100 * 2.3e-16


def test_float32() -> None:
    single, double = (sid(layer(dtype=dtype), 4, 5) for dtype in (torch.float32, torch.float64))
    assert single.value[0].dtype == torch.float32
    assert (single.value[0] - double.value[0]).abs().max() <= 200 * 1.2e-7


def test_a_module_of_the_user() -> None:
    """The layer's two tensors are one w; the hyperparameters are a dict."""
    generator = torch.Generator().manual_seed(1)
    X, y = (torch.randn(8, n, generator=generator, dtype=torch.float64) for n in (3, 1))
    linear = nn.Linear(3, 1).double()

    def inner_loss(model: nn.Module, hparams: dict[str, Tensor], batch: dict[str, Tensor]) -> Tensor:
        penalty = sum((hparams["penalty"].exp() * p**2).sum() for p in model.parameters())
        return mse_loss(model(batch["X"]), batch["y"]) + penalty

    def outer_loss(model: nn.Module, hparams: dict[str, Tensor]) -> Tensor:
        return mse_loss(model(X + 0.1), y)

    hparams = {"penalty": torch.zeros(1, dtype=torch.float64)}
    problem = bc.Problem.from_loss(inner_loss, outer_loss, linear, hparams, 0.1, data={"X": X, "y": y}, batch=2)
    values = sid(problem, 0, 4, RUNS).value[0]
    assert misses(values, expected_sid(problem, problem.w0, 4, SLOWER)) <= Z


def test_starts() -> None:
    problem, w = layer(), torch.full((3,), 0.2, dtype=torch.float64)
    rows = torch.stack((w, 2 * w))
    result = sid(problem, 3, 3, runs=2, w0=rows, v0=w)
    assert torch.equal(sid(problem, 0, 0, runs=2, w0=rows).w[0], rows)
    assert (result.w[0][0] - sid(problem, 3, 3, runs=2, w0=w).w[0][0]).abs().max() <= 100 * 2.3e-16
    assert torch.equal(sid(problem, 3, 0, runs=2, v0=w).v[0], w.expand(2, -1))


def test_what_cannot_be_run() -> None:
    problem = layer()
    momentum = replace(problem, dynamics=heavy_ball(lambda ready: (1.0, 0.1)))
    plain = replace(problem, finite_sum=None)
    for wrong, options, words in (
        (plain, {}, "sid draws minibatches.*data="),
        (momentum, {}, "no momentum"),
        (problem, {"runs": 0}, "runs must be at least 1"),
        (problem, {"seed": "a"}, "seed = 'a'"),
        (problem, {"seed": -1}, "seed = -1 is not a seed"),
        (problem, {"seed": 2**32}, "seed = 4294967296 is not a seed.* below 2³²"),  # whose draws are those of seed 0
        (problem, {"grid": []}, "grid is empty"),
        (problem, {"grid": [(3, 4)]}, r"\(3, 4\) beyond t = 2"),
        (problem, {"memory": 2000}, "a step of one run needs .* raise memory"),
        (problem, {"memory": 500}, "fewer runs"),
        (problem, {"w0": torch.zeros(3)}, "w0"),
    ):
        with pytest.raises(InputError, match=words):
            sid(wrong, 2, 4, **options)


def test_divergence_says_at_which_step() -> None:
    """Each step multiplies by 1e30, and numbers end at 1.8e308; v_1 = ∇₁E = 1."""

    def fp_map(w: Tensor, lam: Tensor, batch: Tensor) -> Tensor:
        return batch.mean() * w + lam

    one, data = torch.ones(1, dtype=torch.float64), torch.full((4,), 1e30, dtype=torch.float64)
    problem = bc.Problem.from_map(fp_map, lambda w, lam: (w * lam).sum(), one, one, data=data, batch=1)
    with pytest.raises(DivergenceError, match=r"w left the finite numbers in step 11 of 20.*smaller steps"):
        sid(problem, 20, 1, steps=FULL)
    with pytest.raises(DivergenceError, match="v left the finite numbers in step 12 of 20"):
        sid(problem, 0, 20, steps_v=FULL)


def test_progress_is_told_and_may_interrupt() -> None:
    told: list[str] = []

    def interrupt(what: str, done: float, of: float) -> None:
        told.append(what)
        if what.endswith("v"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sid(layer(), 3, 4, progress=interrupt)
    assert told == ["stochastic steps of w", "stochastic steps of v"]

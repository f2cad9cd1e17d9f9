"""The Neumann series of random length takes the products of its definition, and its mean is that of the full series."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from random_instances import EXAMPLES, Z, derivatives, layer, misses, outer_gradients

import boundcheck as bc
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.neumann import run_neumann
from boundcheck.numerics.solvers.sid import run_sid
from boundcheck.numerics.solvers.stochastic_chain import LAST, LENGTH, LINEAR, generator
from boundcheck.numerics.solvers.stochastic_runs import SidRuns
from boundcheck.step_schedule import StepSchedule

HALF = StepSchedule.constant(0.5)
RUNS = 4000


def neumann(problem: Problem, t: int, K: int, runs: int = RUNS, **options: Any) -> SidRuns:
    return run_neumann(problem, t, K, **{"steps": HALF, "seed": 7, "runs": runs, **options})


def test_products_are_those_of_the_definition() -> None:
    """From the same draws: runs are in the order of their lengths, the longest first. 100 roundings."""
    problem, t, K, runs = layer(), 3, 5, 12
    sums, device = problem.finite_sum, torch.device("cpu")
    assert sums is not None
    result = neumann(problem, t, K, runs)
    p, order = torch.randint(K, (runs,), generator=generator(7, LENGTH, t)).sort(descending=True)
    assert len(Counter(p.tolist())) == K
    linear = generator(7, LINEAR, t)
    each = [sums.draw(linear, runs, device) for _ in range(K - 1)]
    last = sums.draw(generator(7, LAST, t), runs, device)
    sid = run_sid(problem, t, 1, steps=HALF, steps_v=HALF, runs=runs, seed=7)
    assert torch.equal(result.w[0], sid.w[0])
    for place, run in enumerate(order.tolist()):
        w = result.w[0][run]
        b, outer_lam = outer_gradients(problem, w)
        v = b
        for indices in each[: int(p[place])]:
            v = derivatives(problem, w, indices[place]).d1.T @ v
        value = outer_lam + derivatives(problem, w, last[run]).d2.T @ (K * v)
        assert (result.v[0][run] - K * v).abs().max() <= 100 * 2.3e-16
        assert (result.value[0][run] - value).abs().max() <= 100 * 2.3e-16


@pytest.mark.parametrize("K", [1, 4])
def test_mean_is_the_truncated_series(K: int) -> None:
    """Σ_{j<K} (∂₁Φᵀ)^j ∇₁E is v_K of K fixed-point iterations."""
    problem = layer()
    result = neumann(problem, 0, K, pairs=True)
    expected = bc.hypergradient(problem, "aid-fp", 0, K)
    assert misses(result.value[0], expected.value) <= Z
    assert misses(result.value_again[0], expected.value) <= Z
    if K > 1:
        assert misses(result.v[0], expected.v) <= Z


def test_results_depend_on_the_seed_alone() -> None:
    problem = layer()
    result, larger = neumann(problem, 2, 4, 100), neumann(problem, 3, 6, 100, grid=[(3, 6), (2, 4)])
    assert torch.equal(result.value[0], larger.value[1])
    assert (result.value[0] - neumann(problem, 2, 4, 100, memory=60_000).value[0]).abs().max() <= 100 * 2.3e-16
    assert (result.value[0] - neumann(problem, 2, 4, 100, seed=8).value[0]).abs().max() > 0.01


def test_lengths_alone_are_random_with_all_examples() -> None:
    problem = layer(batch=EXAMPLES, replacement=False)
    v = neumann(problem, 0, 3, 300).v[0]
    b, full = outer_gradients(problem, problem.w0)[0], derivatives(problem, problem.w0).d1
    possible = torch.stack([3 * b, 3 * full.T @ b, 3 * full.T @ full.T @ b])
    nearest = (v[:, None] - possible).norm(dim=2).min(dim=1)
    assert nearest.values.max() <= 100 * 2.3e-16
    assert min(Counter(nearest.indices.tolist()).values()) >= 60  # of 300 in 3 places: 5 standard deviations below 100


def test_a_series_has_a_first_term() -> None:
    with pytest.raises(InputError, match="k must be at least 1"):
        neumann(layer(), 2, 0)

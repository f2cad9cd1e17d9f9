"""Small problems run on one thread, and the caller's setting comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from small import small
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.threads import is_small, threads_for


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def watched(seen: list[int]) -> bc.Problem:
    def layer(w: Tensor, lam: Tensor) -> Tensor:
        seen.append(torch.get_num_threads())
        return 0.5 * w + lam

    zeros = torch.zeros(3, dtype=torch.float64)
    return bc.Problem.from_map(layer, lambda w, lam: (w**2).sum(), zeros, zeros + 1)


def test_a_small_problem_runs_on_one_thread() -> None:
    seen: list[int] = []
    problem = watched(seen)
    for call in (
        lambda: bc.hypergradient(problem, "aid-fp", t=2),
        lambda: bc.error_curves(problem, ["itd"], t=2),
        lambda: bc.estimate_constants(problem=problem),
    ):
        seen.clear()
        call()
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2


def test_the_setting_comes_back_after_an_error() -> None:
    problem = watched([])
    for call in (
        lambda: bc.hypergradient(problem, "none of them"),
        lambda: bc.error_curves(problem, ["itd"], t=0),
        lambda: bc.hypergradient("no such problem"),
    ):
        with pytest.raises(bc.BoundcheckError):
            call()
        assert torch.get_num_threads() == 2


def test_sizes_decide() -> None:
    assert is_small(small("lr"))
    X = torch.ones(2000, 2000)
    zeros = torch.zeros(2000)

    def layer(w: Tensor, lam: Tensor) -> Tensor:
        return 1e-4 * (X @ w) + lam

    many_data = bc.Problem("data", zeros, zeros, layer, lambda w, lam: w.sum())
    many_numbers = bc.Problem(
        "numbers", torch.zeros(60_000), torch.zeros(1), lambda w, lam: w / 2 + lam, lambda w, lam: w.sum()
    )
    for problem in (many_data, many_numbers):
        assert not is_small(problem)
        with threads_for(problem):
            assert torch.get_num_threads() == 2

"""Functions that give another value from call to call, or no finite one, are refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.estimate import validate


def test_noise_that_vanishes_at_the_start_is_noise() -> None:
    """Dropout at w_0 = 0."""
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * torch.nn.functional.dropout(w, 0.5) + lam, lambda w, lam: w.sum(), torch.zeros(9).double(),
        torch.ones(9).double(),
    )  # fmt: skip
    with pytest.raises(bc.InputError, match=r"two calls of Φ at one w and lam differ by .*, so it is stochastic"):
        bc.estimate_constants(problem)


def _changing(changes: Callable[[int], bool]) -> tuple[bc.Problem, list[int]]:
    """Φ = w/2 + λ, or w/2 + 2λ in calls of such numbers; and how often it was called."""
    calls = [0]

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        calls[0] += 1
        return w / 2 + (2 * lam if changes(calls[0]) else lam)

    one = torch.ones(1, dtype=torch.float64)
    return bc.Problem.from_map(phi, lambda w, lam: (w * w).sum(), 2 * one, one), calls


@pytest.mark.parametrize("period", [3, 10, 30])
def test_a_batch_that_changes_every_few_calls_is_refused(period: int) -> None:
    with pytest.raises(bc.BoundcheckError, match="stochastic"):
        bc.estimate_constants(_changing(lambda n: n // period % 2 == 1)[0], budget=12)


@pytest.mark.parametrize("call", ["constants", "enclose", "check"])
def test_a_function_that_changes_late_in_a_call_is_refused(call: str) -> None:
    ask = {
        "constants": lambda problem: bc.estimate_constants(problem, budget=12),
        "enclose": lambda problem: bc.enclose(problem, torch.ones(1, dtype=torch.float64), budget=12),
        "check": lambda problem: bc.check(problem, ["itd"], t=3, bounds=["itd-local"], budget=12),
    }[call]
    problem, calls = _changing(lambda n: False)
    ask(problem)
    last = calls[0] - 2  # Φ is asked twice at the end
    with pytest.raises(bc.InputError, match=r"two calls of Φ at one w and lam differ by 1.00e.00, so it is stochastic"):
        ask(_changing(lambda n: n > last)[0])


def test_a_stochastic_function_is_refused() -> None:
    generator = torch.Generator().manual_seed(0)

    def phi(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return 0.5 * w + lam + 1e-6 * torch.rand((), generator=generator, dtype=w.dtype)

    problem = bc.Problem.from_map(phi, lambda w, lam: w.sum(), torch.zeros(2).double(), torch.ones(2).double())
    with pytest.raises(bc.InputError, match=r"two calls of Φ at one w and lam differ by .*, so it is stochastic; fix"):
        validate.check(problem, problem.lam)


def test_what_is_not_finite_names_the_call_and_the_point() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: w.sum(), torch.ones(2).double(), torch.ones(2).double()
    )
    broken = problem.__class__(**{**vars(problem), "outer_at": lambda w, ready: (w / 0).sum()})
    with pytest.raises(bc.UserCodeError, match=r"E is not finite at w_0 \(‖w_0‖ = 1.41\)"):
        validate.check(broken, broken.lam)

"""What a call has found once it does not compute again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import boundcheck as bc
from boundcheck.numerics.bilevel import derivative_check
from boundcheck.numerics.estimate.near_solution import near_solution


@pytest.fixture(scope="module")
def problem() -> bc.Problem:
    one = torch.ones(1, dtype=torch.float64)
    return bc.Problem.from_map(lambda w, lam: torch.sin(w) / 2 + lam, lambda w, lam: (w * w).sum(), 2 * one, one)


CALLS: dict[str, Callable[[bc.Problem], Any]] = {
    "check": lambda problem: bc.check(problem, ["itd"], t=3, bounds=["itd-local"], proofs=False, budget=12),
    "enclose": lambda problem: bc.enclose(problem, torch.ones(1, dtype=torch.float64), budget=12),
    "plan": lambda problem: bc.plan(problem, 0.1, methods=["itd"], budget=12),
}


@pytest.mark.parametrize("call", CALLS)
def test_derivatives_are_compared_and_the_fixed_point_is_proved_once(
    call: str, problem: bc.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirm, asked = derivative_check.confirm, []

    def counted(*args: Any, **more: Any) -> Any:
        asked.append(args)
        return confirm(*args, **more)

    monkeypatch.setattr(derivative_check, "confirm", counted)
    near_solution.cache_clear()
    CALLS[call](problem)
    assert len(asked) == 1
    assert near_solution.cache_info().misses == 1

"""Errors so small that their squares are 0 in float32 are rounding, and no evidence against a bound."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import boundcheck as bc


@pytest.mark.parametrize("method", ["itd", "aid-fp", "aid-cg"])
def test_a_solution_at_zero_in_float32(method: str) -> None:
    """w_t = w_0/2^t; five bounds were violated."""

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        return torch.stack([0.5 * w[0], 0.25 * w[1]]) + lam * w.sum()

    problem = bc.Problem.from_map(
        phi, lambda w, lam: (w**2).sum() / 2, torch.tensor([1e-3, 2e-3]), torch.zeros(1)
    )  # fmt: skip
    report = bc.check(problem, [method], t=90, budget=12)
    assert report.verdict in (bc.Verdict.HOLDS, bc.Verdict.CONSISTENT)

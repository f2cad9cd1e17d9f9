"""Numbers that a function computes from data alone: where their rounding matters, nothing is proved."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.estimate.data_arithmetic import doubt

ONE = torch.ones(1)


def make(dtype: torch.dtype, big: float) -> bc.Problem:
    """K = (big + 0.3) − big, which is 0.3 in exact arithmetic."""
    large, small = torch.tensor([big], dtype=dtype), torch.tensor([0.3], dtype=dtype)
    return bc.Problem.from_map(
        lambda w, h: ((large + small) - large) * torch.sin(w) + h,
        lambda w, h: ((w - 3) ** 2).sum() / 2, 0 * ONE.to(dtype), ONE.to(dtype),
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "big"), [(torch.float32, 3e3), (torch.float64, 3e11)])
def test_an_enclosure_of_two_functions_is_no_proof(dtype: torch.dtype, big: float) -> None:
    """At 3e3 in float32 the error was said to be at most 3.0e-5, proved; with K = 0.3 it is 5.8e-5."""
    problem = make(dtype, big)
    assert bc.enclose(problem, bc.hypergradient(problem, "exact")).side is bc.Side.LOWER
    constants = bc.estimate_constants(problem, ball="local", budget=12)
    assert constants["q_star"].side is bc.Side.LOWER
    assert "computes with its data in float" in constants["q_star"].provenance.how
    assert bc.hypergradient(problem, rtol=0.01).how == "estimated"


def test_what_is_computed_without_loss_is_data() -> None:
    X = torch.tensor([[2.0, 1.0], [0.0, 1.0]])

    def phi(w: Tensor, h: Tensor) -> Tensor:
        return (X.T @ X) @ w / 16 + 0.1 * torch.sin(w) + h

    problem = bc.Problem.from_map(phi, lambda w, h: ((w - 3) ** 2).sum() / 2, torch.zeros(2), ONE)
    assert bc.estimate_constants(problem, ball="local", budget=12)["q"].side is bc.Side.UPPER


@pytest.mark.parametrize(("big", "rounds"), [(0.0, False), (3e11, True)])
def test_infinite_entries_of_data_do_not_round(big: float, rounds: bool) -> None:
    """A mask of −∞ was said to round; what stands beside it may."""
    large, hidden = torch.tensor([big, 1.0], dtype=torch.float64), torch.tensor([False, True])

    def phi(w: Tensor, h: Tensor) -> Tensor:
        mask = ((large + 0.3) - large).masked_fill(hidden, -float("inf"))
        return 0.5 * torch.sigmoid(w + mask) + h

    start = torch.zeros(2, dtype=torch.float64)
    problem = bc.Problem.from_map(phi, lambda w, h: ((w - 3) ** 2).sum(), start, start[:1])
    assert ("rounds" in doubt(problem)) is rounds

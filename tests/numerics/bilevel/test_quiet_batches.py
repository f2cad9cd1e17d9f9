"""PyTorch's warnings about slow batches: none while a call of ours runs, and as before afterwards."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.quiet_batches import quiet_batches

START = torch.tensor([0.3, -0.2, 0.5, 0.1], dtype=torch.float64)


def no_rule_for_batches(w: Tensor) -> Tensor:
    return w.reshape(2, 2).renorm(2, 0, 1.0).sum()


def warnings_of_torch(capfd: pytest.CaptureFixture[str]) -> int:
    return capfd.readouterr().err.count("performance drop")


@pytest.mark.filterwarnings("always:There is a performance drop")
def test_no_warning_reaches_the_terminal(capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder) -> None:
    def inner_loss(w: Tensor, h: Tensor) -> Tensor:
        return no_rule_for_batches(w) + h.exp().sum() * (w @ w)

    problem = bc.Problem.from_loss(inner_loss, lambda w, h: w @ w, START, torch.zeros(1, dtype=torch.float64))
    bc.estimate_constants(problem, budget=5)
    bc.hypergradient(problem, "itd", t=3)
    assert warnings_of_torch(capfd) == 0
    assert not [w for w in recwarn.list if "performance drop" in str(w.message)]


@quiet_batches()
def fails() -> None:
    with quiet_batches():
        pass
    torch.func.vmap(no_rule_for_batches)(START.expand(2, -1))
    raise ZeroDivisionError


def test_they_come_back(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        fails()
    assert warnings_of_torch(capfd) == 0
    with pytest.warns(UserWarning, match="performance drop"):
        torch.func.vmap(no_rule_for_batches)(START.expand(2, -1))

"""Maps on minibatches run on other devices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cases import (
    DTYPES,
    TINY,
)
from pretend import DEVICE, host, pretending
from small import small
from test_devices import agrees
from torch import Tensor, nn

from boundcheck.numerics.bilevel import minibatches
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program.mean_over_rows import MeanProof


@DTYPES
@pytest.mark.parametrize("name", ["lr", "newsgroups", "fashion-mnist"])
def test_minibatches(name: str, dtype: torch.dtype) -> None:
    """The same examples are drawn on every device, and many runs are on it to the end."""
    same = small(name, dtype=dtype, batch=2, **TINY[name])
    with pretending():
        problem = small(name, dtype=dtype, device=DEVICE, batch=2, **TINY[name])
        indices = problem.finite_sum.draw(torch.Generator().manual_seed(0), 3, DEVICE)
        W = torch.linspace(-0.3, 0.4, 3 * problem.d, dtype=dtype, device=DEVICE).reshape(3, -1)
        runs = runs_on(problem, W, indices)
    drawn = same.finite_sum.draw(torch.Generator().manual_seed(0), 3, torch.device("cpu"))
    assert (runs.device, indices.device) == (DEVICE, DEVICE)
    assert torch.equal(host(indices), drawn)
    agrees(runs, runs_on(same, host(W), drawn))


def runs_on(problem: Problem, W: Tensor, indices: Tensor) -> Tensor:
    assert problem.finite_sum is not None
    return torch.func.vmap(problem.finite_sum.phi_on, (0, None, 0))(W, problem.prepare(problem.lam), indices)


def cross_entropy(device: Any, dtype: torch.dtype) -> Problem:
    """A user's problem with data."""
    X = torch.linspace(-1, 1, 12, dtype=dtype, device=device).reshape(4, 3) ** 3 + 0.2
    y = torch.tensor([0, 1, 1, 1], device=device)
    zeros = torch.zeros(3, 2, dtype=dtype, device=device)

    def inner(W: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(batch[0] @ W, batch[1]) + (lam.exp()[:, None] * W**2).sum()

    return Problem.from_loss(
        inner, lambda W, lam: (X @ W).square().mean() + W.sum(), zeros, zeros[:, 0], 0.1, data=(X, y), batch=3
    )


@pytest.mark.usefixtures("without_program")
@DTYPES
def test_users_minibatches(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a proof, as tensors that pretend are not recorded: the values are compared on the device."""
    monkeypatch.setattr(minibatches, "mean_over_rows", lambda *arguments: MeanProof("the test records nothing"))
    same = cross_entropy("cpu", dtype)
    with pretending():
        problem = cross_entropy(DEVICE, dtype)
        indices = problem.finite_sum.draw(torch.Generator().manual_seed(0), 3, DEVICE)
        W = torch.linspace(-0.3, 0.4, 3 * problem.d, dtype=dtype, device=DEVICE).reshape(3, -1)
        runs = runs_on(problem, W, indices)
    agrees(runs, runs_on(same, host(W), host(indices)))

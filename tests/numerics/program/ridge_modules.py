"""Ridge regression as a module, and the plain problem that it has to agree with."""

from __future__ import annotations

import pytest
import torch
from pieces import normal
from torch import Tensor, nn

import boundcheck as bc

X, Z = normal(20, 3), normal(15, 3, seed=1)
Y = X @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
LAM = torch.tensor([-1.5], dtype=torch.float64)
METHODS = ("itd", "aid-fp", "aid-cg", "aid-cgn")


class Ridge(nn.Module):
    """A linear model that knows its own penalty."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1, bias=False).double()
        self.layer.weight = nn.Parameter(start.reshape(1, 3).clone())

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[:, 0]

    def l2(self) -> Tensor:
        return self.layer.weight.square().sum()


def plain_ridge(start: Tensor) -> bc.Problem:
    return bc.Problem.from_loss(
        lambda w, h: ((X @ w - Y) ** 2).mean() + h.exp().sum() * (w**2).sum(),
        lambda w, h: ((X @ w - Y - 1) ** 2).mean(), start, LAM,
    )  # fmt: skip


def same_as(problem: bc.Problem, plain: bc.Problem, methods: tuple[str, ...] = METHODS) -> None:
    """The same hypergradients one by one and, batched, the same errors for every t."""
    assert torch.equal(problem.w0, plain.w0)
    w = plain.w0 + 1
    for ours, theirs in zip((problem.phi, problem.outer), (plain.phi, plain.outer), strict=True):
        assert torch.allclose(ours(w, LAM), theirs(w, LAM), rtol=1e-12, atol=1e-14)
    if plain.inner_at is not None:  # also where nothing requires gradients
        assert float(problem.inner(w, LAM)) == pytest.approx(float(plain.inner(w, LAM)), rel=1e-12)
    for method in methods:
        t, k = (6, None) if method == "itd" else (6, 4)
        ours, theirs = (bc.hypergradient(p, method, t, k).value for p in (problem, plain))
        assert float((ours - theirs).norm()) <= 1e-12 * float(theirs.norm())
    ours, theirs = (bc.error_curves(p, list(methods), t=5) for p in (problem, plain))
    for method in methods:
        assert ours[method] == pytest.approx(theirs[method], rel=1e-8, abs=1e-13)

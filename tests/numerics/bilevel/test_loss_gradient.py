"""The gradient of a loss without transformations is that of `torch.func.grad`: to the last bit, but for `prod`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from boundcheck.numerics.bilevel import loss_gradient

D = torch.float64
A = torch.tensor([[2.0, 0.3, 0.1], [0.3, 1.5, 0.4], [0.1, 0.4, 3.0]], dtype=D)
w, lam = torch.tensor([0.3, -1.2, 0.8], dtype=D), torch.tensor([0.7], dtype=D)
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "ridge": lambda w, v: (A @ w).square().sum() + v.exp().sum() * (w @ w),
    "norm": lambda w, v: w.norm() * v.sum(),
    "softmax": lambda w, v: -torch.log_softmax(v * w, 0)[1],
    "prod": lambda w, v: w.prod() * v.sum(),
    "a gradient inside": lambda w, v: torch.func.grad(lambda x: (x**3).sum())(w) @ w,
    "constant": lambda w, v: v.sum(),
    "stopped": lambda w, v: (w.detach() * w).sum() + v.sum(),
    "unused": lambda w, v: (v * v).sum() + torch.zeros((), dtype=D),
}


@pytest.mark.parametrize("name", LOSSES)
def test_it_is_that_of_torch(name: str) -> None:
    ours, torchs = loss_gradient.gradient(LOSSES[name]), torch.func.grad(LOSSES[name])
    with torch.no_grad():
        result = ours(w, lam)
        if name == "prod":  # of which PyTorch has another formula inside of transformations: three roundings
            assert torch.allclose(result, torchs(w, lam), rtol=3 * torch.finfo(D).eps, atol=0)
        else:
            assert torch.equal(result, torchs(w, lam))
        assert not result.requires_grad
    needs = lam.clone().requires_grad_()
    with torch.no_grad():
        assert not ours(w, needs).requires_grad
    assert torch.equal(ours(w, lam), torchs(w, lam))


def test_derivatives_of_it_and_rows_go_by_torch() -> None:
    ours, torchs = (of(LOSSES["softmax"]) for of in (loss_gradient.gradient, torch.func.grad))
    for of in (torch.func.jacrev, torch.func.jacfwd):
        assert torch.equal(of(ours)(w, lam), of(torchs)(w, lam))
    rows = torch.stack((w, 2 * w))
    with torch.no_grad():
        assert torch.equal(*(torch.vmap(of, in_dims=(0, None))(rows, lam) for of in (ours, torchs)))
    x = w.clone().requires_grad_()
    assert torch.equal(*(torch.autograd.grad(of(x, lam).sum(), x)[0] for of in (ours, torchs)))


def test_the_graph_of_the_caller_is_left_alone() -> None:
    x = w.clone().requires_grad_()
    with torch.no_grad():
        loss_gradient.gradient(LOSSES["ridge"])(x, lam)
    assert x.grad is None
    assert x.requires_grad

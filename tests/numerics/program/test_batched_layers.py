"""Layers whose second derivatives PyTorch does not take in batches run with formulas, which are the same functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, jacrev, vmap

import boundcheck as bc
from boundcheck.numerics.bilevel.derivatives import extreme_curvature, jacobian
from boundcheck.numerics.program.batched_losses import Formulas

FLOAT64 = torch.float64


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=FLOAT64)


W6, B6, W5, MASK = normal(6, seed=1), normal(6, seed=2), normal(5, seed=3), normal(5, 5, seed=4)


def heads(x: Tensor, **options: object) -> Tensor:
    q = x.reshape(2, 2, 5, 6)
    return F.scaled_dot_product_attention(q, q.flip(2), q**2, **options)


ENCODER = nn.TransformerEncoderLayer(6, 2, 4, 0.0, batch_first=True, dtype=FLOAT64).eval()


def encoder(x: Tensor) -> Tensor:
    return ENCODER(x.reshape(4, 5, 6))


LAYERS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_norm": lambda x: F.layer_norm(x, (5,), W5, W5 + 1, 1e-3),
    "layer_norm, two axes": lambda x: torch.layer_norm(x, (6, 5)),
    "group_norm": lambda x: F.group_norm(x, 3, W6, B6),
    "batch_norm of the batch": lambda x: F.batch_norm(x, None, None, W6, B6, True),
    "batch_norm of stored numbers": lambda x: F.batch_norm(x, B6, W6.abs(), W6, B6),
    "instance_norm": lambda x: F.instance_norm(x, weight=W6, bias=B6),
    "attention": heads,
    "attention, causal": lambda x: heads(x, is_causal=True),
    "attention, mask": lambda x: heads(x, attn_mask=MASK, scale=0.3),
    "attention, choice": lambda x: heads(x, attn_mask=MASK > -1),
    "transformer": encoder,
}


@pytest.mark.parametrize("name", LAYERS)
def test_formulas_are_the_layers(name: str) -> None:
    x = normal(4, 6, 5)
    theirs = LAYERS[name](x)
    with Formulas() as formulas:
        ours = LAYERS[name](x)
    assert formulas.used
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-13)  # some hundred operations on numbers around 1


@pytest.mark.parametrize("name", LAYERS)
def test_second_derivatives_in_batches(name: str) -> None:
    X, factor = normal(2, 4, 6, 5), normal(4, 6, 5, seed=9)

    def second(x: Tensor, scale: Tensor) -> Tensor:
        def f(scale: Tensor) -> Tensor:
            return (LAYERS[name](x + scale.sum() * factor) ** 3).sum()

        return jacrev(grad(f))(scale)

    with Formulas():
        both = vmap(vmap(second, in_dims=(0, None)), in_dims=(None, 0))(X, normal(3, 2))
        one = second(X[1], normal(3, 2)[2])
    torch.testing.assert_close(both[2, 1], one, rtol=1e-9, atol=1e-9)


def test_a_problem_with_a_norm_is_one() -> None:
    X, y = normal(6, 3), normal(6, seed=5)
    net = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2), nn.Linear(2, 1)).double()

    def outer(model: nn.Module, lam: Tensor) -> Tensor:
        return F.mse_loss(model(X)[:, 0], y)

    def inner(model: nn.Module, lam: Tensor) -> Tensor:
        return outer(model, lam) + sum(lam.exp() * (p**2).sum() for p in model.parameters())

    problem = bc.Problem.from_loss(inner, outer, net, torch.zeros((), dtype=FLOAT64), name="norm")
    assert bc.hypergradient(problem, "itd", 3).value.isfinite().all()


def test_what_pytorch_cannot_differentiate_is_one_line() -> None:
    def loss(w: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*[w.reshape(1, 1, 3, 2)] * 3).sum()

    with pytest.raises(bc.UserCodeError, match=r"derivative for aten::.*write that operation") as message:
        extreme_curvature(loss, normal(6))
    assert "\n" not in str(message.value)


def test_what_pytorch_cannot_batch_is_one_line() -> None:
    def loss(w: Tensor) -> Tensor:
        return (F.layer_norm(normal(4, 3) @ w.reshape(3, 2), (2,)).tanh() @ w[:2]).square().sum()

    with pytest.raises(bc.UserCodeError, match=r"vmap.*out of place"):
        vmap(lambda w: jacobian(grad(loss), w))(normal(2, 6))

"""What autograd does not see (stop-gradients), and what is no function: randomness, NaN in places, state that changes.

The truth is the derivative of the values. A library that differentiates the program gets another one, so it has to
compare the two, and to refuse.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor

from .case import number
from .exact import mp
from .smooth import Piece, near


class _WrongBackward(torch.autograd.Function):
    """sin with the derivative of 1/2, as a mistake in a hand-written backward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, by_output: Tensor) -> Tensor:
        return by_output * 0.5

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return tangent * 0.5


def _no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.sin(x)


STOPS = {
    "detach": lambda x: torch.sin(x).detach(),
    "detach of the argument": lambda x: torch.sin(x.detach()),
    "no_grad": _no_grad,
    ".data": lambda x: torch.sin(x).data,
    "wrong backward": lambda x: _WrongBackward.apply(x),
    "new tensor": lambda x: torch.sin(x.detach().clone()),
}


def stop_gradient(rng: Random, d: int, n: int, reach: float) -> Piece:
    """a·sin(w), of which autograd sees nothing."""
    name, a = rng.choice(sorted(STOPS)), number(rng.choice([0.1, 0.25, 0.4]))
    return Piece(
        "stop-gradient",
        f"{a:.3g}·sin(w) by {name}",
        lambda w, lam: a * STOPS[name](w),
        lambda w, lam: [a * mp.sin(x) for x in w],
        near(0.0, d, 3.14159),
        legal=False,
    )


def stop_gradient_in_lam(rng: Random, d: int, n: int, reach: float) -> Piece:
    """a·sin(λ₀), of which autograd sees nothing."""
    name, a = rng.choice(sorted(STOPS)), number(rng.choice([0.1, 0.5, 1.0]))
    return Piece(
        "stop-gradient",
        f"{a:.3g}·sin(λ₀) by {name}",
        lambda w, lam: a * STOPS[name](lam[0]) * torch.ones_like(w),
        lambda w, lam: [a * mp.sin(lam[0])] * len(w),
        legal=False,
    )


def random_noise(rng: Random, d: int, n: int, reach: float) -> Piece:
    a = number(rng.choice([1e-3, 1e-6, 1e-14, 1e-15]))
    return Piece(
        "random",
        f"{a:.3g}·randn_like(w)",
        lambda w, lam: a * torch.randn(w.shape, dtype=w.dtype),
        lambda w, lam: [mp.mpf(0)] * len(w),
        legal=False,
        undefined=True,
    )


def not_a_number(rng: Random, d: int, n: int, reach: float) -> Piece:
    """NaN where w₀ is above a half of the reach: log of a negative number."""
    a, c = number(0.01), number(0.5 * reach)
    return Piece(
        "NaN",
        f"{a:.3g}·log({c:.4g} − w)",
        lambda w, lam: a * torch.log(c - w),
        lambda w, lam: [a * mp.log(c - x) if x < c else mp.nan for x in w],
        near(0.9 * c, d),
        legal=False,
    )


BLIND = (stop_gradient, stop_gradient, stop_gradient_in_lam, random_noise, not_a_number)

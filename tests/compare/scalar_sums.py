"""Small lower levels with minibatches, written in plain torch, on which constants and means are known."""

from __future__ import annotations

import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import Problem


def line(
    a: list[float], b: list[float], c: list[float], *, lam: float = 1.0, w0: float = 1.0, square: bool = False,
    batch: int = 1, replacement: bool = True,
) -> Problem:  # fmt: skip
    """Φ_i = a_i w + b_i λ + c_i, one number each, and E = 2w or ½w²."""

    def fp_map(w: Tensor, lam: Tensor, batch: tuple[Tensor, ...]) -> Tensor:
        a, b, c = batch
        return (a[:, None] * w + b[:, None] * lam + c[:, None]).mean(0)

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return 0.5 * (w * w).sum() if square else 2 * w.sum()

    data = tuple(torch.tensor(x, dtype=torch.float64) for x in (a, b, c))
    return bc.Problem.from_map(
        fp_map, outer, _number(w0), _number(lam), data=data, batch=batch, replacement=replacement, name="line"
    )


def quadratic(a: list[float], c: list[float], *, lam: float = 0.0, w0: float = 1.0) -> Problem:
    """ℓ_i = ½a_i w² − c_i w − λw with α = 1, so Φ_i = (1 − a_i)w + c_i + λ, and E = 2w."""

    def inner(w: Tensor, lam: Tensor, batch: tuple[Tensor, ...]) -> Tensor:
        a, c = batch
        return (0.5 * a * (w * w).sum() - c * w.sum()).mean() - (lam * w).sum()

    data = tuple(torch.tensor(x, dtype=torch.float64) for x in (a, c))
    return bc.Problem.from_loss(
        inner,
        lambda w, lam: 2 * w.sum(),
        _number(w0),
        _number(lam),
        step_size=1.0,
        data=data,
        batch=1,
        name="quadratic",
    )


def ridge(batch: int = 8, replacement: bool = True) -> Problem:
    """Linear regression with a penalty: 24 examples, 3 weights, λ the logarithm of the penalty of each."""
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(24, 3, generator=generator, dtype=torch.float64) - 0.5
    y = X @ torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    X_val = torch.rand(12, 3, generator=generator, dtype=torch.float64) - 0.5

    def inner(w: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        X, y = batch
        return 0.5 * ((X @ w - y) ** 2).mean() + 0.5 * (lam.exp() * w * w).sum()

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return (X_val @ w - X_val.sum(1)).square().mean()

    zeros = torch.zeros(3, dtype=torch.float64)
    return bc.Problem.from_loss(
        inner, outer, zeros, zeros, data=(X, y), batch=batch, replacement=replacement, name="ridge"
    )


def _number(x: float) -> Tensor:
    return torch.full((1,), x, dtype=torch.float64)

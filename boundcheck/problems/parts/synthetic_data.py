"""Shared parts of the synthetic problems of section 4.1: the data of appendix C.1, samplers of λ, and a ridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import InputError


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Return normal numbers on the CPU in double precision, for any default device and dtype of torch."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu")


OTHER_STREAM = 10**9  # added to the seed for the data, so that data and λ have different random numbers


@dataclass(frozen=True)
class DataSplit:
    """Training data (X, y) and validation data (X_val, y_val)."""

    X: Tensor
    y: Tensor
    X_val: Tensor
    y_val: Tensor


@dataclass(frozen=True)
class Draw:
    """Random numbers on the CPU in double precision, so that a seed gives the same data for every dtype and device."""

    generator: torch.Generator
    dtype: torch.dtype
    device: torch.device | str

    @classmethod
    def seeded(cls, seed: int, dtype: torch.dtype, device: torch.device | str) -> Draw:
        return cls(torch.Generator(device="cpu").manual_seed(seed + OTHER_STREAM), dtype, device)

    def normal(self, *shape: int) -> Tensor:
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in shape):
            raise InputError(f"sizes {shape} are not possible; give whole numbers of at least 1")
        return normal(self.generator, *shape)

    def place(self, x: Tensor) -> Tensor:
        return x.to(dtype=self.dtype, device=self.device)


def linear_data(
    *, seed: int, dtype: torch.dtype, device: torch.device | str, size: int = 50, features: int = 100,
    noise: float = 0.1, weights: Callable[[Draw, int], Tensor] = Draw.normal,
    label: Callable[[Tensor], Tensor] = lambda y: y,
) -> DataSplit:  # fmt: skip
    """Return y = label(Xw + noise) on two sets of `size` examples, with normal X and w = weights(draw, features)."""
    draw = Draw.seeded(seed, dtype, device)
    w_true = weights(draw, features)
    X, X_val = draw.normal(size, features), draw.normal(size, features)
    y, y_val = (label(A @ w_true + noise * draw.normal(size)) for A in (X, X_val))
    return DataSplit(*(draw.place(x) for x in (X, y, X_val, y_val)))


def uniform(low: float, high: float, size: int) -> Callable[[torch.Generator], Tensor]:
    """Return a sampler of λ with independent entries, uniform on [low, high]."""
    return lambda generator: (
        low + (high - low) * torch.rand(size, generator=generator, dtype=torch.float64, device="cpu")
    )


def drawn(sampler: Callable[[torch.Generator], Tensor], seed: int, like: Tensor) -> Tensor:
    """Return the first λ of a seed, with the dtype and device of `like`."""
    return sampler(torch.Generator(device="cpu").manual_seed(seed)).to(like)


def ridge_for(least: Tensor, most: Tensor, kappa: float) -> float:
    """Return β with (β + λmax)/(β + λmin) = κ."""
    if not 1 < kappa < float("inf"):
        raise InputError(f"kappa = {kappa} is not a condition number to aim at; give a finite number above 1")
    low, high = float(least), float(most)
    beta = (high - kappa * low) / (kappa - 1)
    if not beta > 0:
        of_data = high / low if low else float("inf")
        raise InputError(f"kappa = {kappa} is above that of the data without ridge, {of_data:.3g}; ask for less")
    return beta

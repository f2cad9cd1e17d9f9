"""Small pieces that tests make problems of."""

from __future__ import annotations

import torch
from torch import Tensor


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.float64)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers, the same in every dtype up to rounding."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def quadratic(w: Tensor, lam: Tensor) -> Tensor:
    return ((w - lam) ** 2).sum()

"""Matrices with planted spectra, and what is asked of estimates of their ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from boundcheck.numerics.estimate.lanczos import Extreme

F64 = torch.float64


DTYPES = pytest.mark.parametrize("dtype", [torch.float32, F64], ids=["float32", "float64"])


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator(device="cpu").manual_seed(seed)


def planted(spectrum: Tensor, seed: int = 7) -> Tensor:
    """A symmetric matrix with these eigenvalues."""
    n = len(spectrum)
    Q = torch.linalg.qr(torch.randn(n, n, generator=draws(seed), dtype=F64)).Q
    H = (Q * spectrum) @ Q.T
    return (H + H.T) / 2


def times(M: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda v: M @ v


class Counted:
    def __init__(self, M: Tensor) -> None:
        self.M, self.count = M, 0

    def __call__(self, v: Tensor) -> Tensor:
        self.count += 1
        return self.M @ v


def encloses(end: Extreme, truth: float, scale: float, eps: float = torch.finfo(F64).eps, *, low: bool = False) -> None:
    """estimate ≤ truth ≤ value for an upper end; the estimate up to its own rounding."""
    sign, rounding = (-1 if low else 1), 20 * eps * scale
    assert sign * end.estimate <= sign * truth + rounding, end
    assert sign * truth <= sign * end.value, end


def spectra(n: int) -> dict[str, Tensor]:
    line = torch.linspace(0.01, 1, n, dtype=F64)
    return {
        "uniform": line,
        "indefinite": line - 0.7,
        "negative": -line,
        "repeated": torch.cat([line[: n // 2], torch.full((n - n // 2,), 2.0, dtype=F64)]),
        "rank one": torch.cat([torch.zeros(n - 1, dtype=F64), torch.full((1,), 3.0, dtype=F64)]),
        "zero": torch.zeros(n, dtype=F64),
        "identity": torch.ones(n, dtype=F64),
        "minus identity": -torch.ones(n, dtype=F64),
        "tiny": 1e-12 * line,
        "large": 1e12 * (line - 0.2),
    }


PLANTED = pytest.mark.parametrize(
    ("n", "name"),
    [(n, name) for n in (1, 2, 3, 100) for name in spectra(3)]
    + [(1000, name) for name in ("uniform", "indefinite", "repeated", "rank one")],
)


def quarter_turns(n: int) -> Tensor:
    return torch.block_diag(*[torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=F64)] * (n // 2))

"""Numbers that are large on the way and cancel: in place, inside one operation, in complex arithmetic, in λ."""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor

from .case import number
from .exact import Vector, mp
from .smooth import Piece, near


def in_place(rng: Random, d: int, n: int, reach: float) -> Piece:
    """add_(1e8) and sub_(1e8): λ₀ loses eight digits."""
    big, a = number(rng.choice([1e4, 1e8, 1e11])), number(rng.uniform(0.1, 0.5))

    def value(w: Tensor, lam: Tensor) -> Tensor:
        x = lam[0] * torch.ones_like(w)
        return a * x.add_(big).sub_(big)

    return Piece(
        "in place", f"{a:.3g}·λ₀.add_({big:g}).sub_({big:g})", value, lambda w, lam: [a * lam[0]] * d, rough=True
    )


def dot(rng: Random, d: int, n: int, reach: float) -> Piece:
    """dot([1e8, −1e8, 1], (λ₀, λ₀, λ₀)): one operation, and all that cancels is inside it."""
    big, a = number(rng.choice([1e4, 1e8, 1e12])), number(rng.uniform(0.1, 0.5))

    def value(w: Tensor, lam: Tensor) -> Tensor:
        weights = torch.tensor([big, -big, 1.0], dtype=w.dtype)
        x = torch.stack([torch.sin(lam[0]), torch.sin(lam[0]), lam[0]])
        return a * torch.dot(weights, x) * torch.ones_like(w)

    return Piece("dot", f"{a:.3g}·dot([{big:g}, −{big:g}, 1], ·)", value, lambda w, lam: [a * lam[0]] * d, rough=True)


def hilbert(rng: Random, d: int, n: int, reach: float) -> Piece:
    """linalg.solve with a Hilbert matrix; its entries are rounded to float32 first, which is then the matrix meant."""
    size = rng.choice([3, 5, 8, 10])
    rows = [[number(1 / (i + j + 1)) for j in range(size)] for i in range(size)]
    inverse = mp.matrix(rows) ** -1
    a = number(1e-3 / max(abs(inverse[i, 0]) for i in range(size)))

    def value(w: Tensor, lam: Tensor) -> Tensor:
        right = torch.cat([lam[:1], torch.zeros(size - 1, dtype=w.dtype)])
        return a * torch.linalg.solve(torch.tensor(rows, dtype=w.dtype), right).sum() * torch.ones_like(w)

    total = mp.fsum(inverse[i, 0] for i in range(size))
    return Piece(
        "solve", f"{a:.3g}·solve(Hilbert({size}), λ₀e₁)", value, lambda w, lam: [a * total * lam[0]] * d, rough=True
    )


def complex_square(rng: Random, d: int, n: int, reach: float) -> Piece:
    """Re((w + iλ₀)²)·a = a(w² − λ₀²)."""
    a = number(0.05 / max(reach, 1))

    def value(w: Tensor, lam: Tensor) -> Tensor:
        return a * (torch.complex(w, lam[0] * torch.ones_like(w)) ** 2).real

    def exact(w: Vector, lam: Vector) -> Vector:
        return [a * (x * x - lam[0] * lam[0]) for x in w]

    return Piece("complex", f"{a:.3g}·Re((w + iλ₀)²)", value, exact, near(reach, d, -2 * reach))


def steep_in_lam(rng: Random, d: int, n: int, reach: float) -> Piece:
    """A derivative of 1e13 in the last entry of λ, which is 0, beside one of 1: relative tolerances hide the latter."""
    big, a = number(rng.choice([1e6, 1e10, 1e13])), number(rng.uniform(0.05, 0.3))
    return Piece(
        "steep",
        f"{a:.3g}·sin(w)·λ₀ + {big:g}·λ₋₁",
        lambda w, lam: a * torch.sin(w) * lam[0] + big * lam[-1],
        lambda w, lam: [a * mp.sin(x) * lam[0] + big * lam[-1] for x in w],
        near(0.0, d, 1.5708),
        rough=True,
    )


CANCELLING = (in_place, dot, hilbert, complex_square)

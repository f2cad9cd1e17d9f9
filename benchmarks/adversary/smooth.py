"""Smooth ingredients that look constant from almost everywhere: steps, bumps, plateaus, waves, products with λ.

Each is a `Piece`: the torch code, and below it the same formula in mpmath. A piece of Φ is a vector and acts on each
entry of w; a piece of E is its sum. Points where it is at its worst are told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
from torch import Tensor

from .case import number
from .exact import Vector, mp

Point = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Piece:
    """A summand of Φ (a vector) or of E (a number), in torch and in mpmath; `potential` has it as gradient in w."""

    kind: str
    words: str
    torch: Callable[[Tensor, Tensor], Tensor]
    exact: Callable[[Vector, Vector], Any]
    bad: tuple[Point, ...] = ()
    potential: Callable[[Tensor, Tensor], Tensor] | None = None
    legal: bool = True
    rough: bool = False
    undefined: bool = False
    lopsided: bool = False


def summed(piece: Piece) -> Piece:
    """The sum of its entries, as a piece of E."""

    def value(w: Tensor, lam: Tensor) -> Tensor:
        return piece.torch(w, lam).sum()

    def exact(w: Vector, lam: Vector) -> Any:
        return mp.fsum(piece.exact(w, lam))

    return replace(piece, words=f"Σ({piece.words})", torch=value, exact=exact, potential=None)


def near(c: float, d: int, *offsets: float) -> tuple[Point, ...]:
    """Points all of whose entries, or of which only the first, are at c or a little beside it."""
    rows = [tuple([c + o] * d) for o in (0.0, *offsets)]
    return (*rows, *(row[:1] + (0.0,) * (d - 1) for row in rows))


def step(rng: Random, d: int, n: int, reach: float) -> Piece:
    """A smooth step: its slope a·K/4 is seen only within 1/K of c."""
    K = rng.choice([50.0, 200.0, 1000.0, 4096.0])
    a, c = number(rng.choice([0.002, 0.01, 0.03]) * rng.choice([-1, 1])), number(rng.uniform(-1, 1) * reach)
    return Piece(
        "step",
        f"{a:.3g}·sigmoid({K:g}(w − {c:.4g}))",
        lambda w, lam: a * torch.sigmoid(K * (w - c)),
        lambda w, lam: [a / (1 + mp.exp(-K * (x - c))) for x in w],
        near(c, d, 1 / K, -1 / K),
        lambda w, lam: -(a / K * torch.nn.functional.logsigmoid(-K * (w - c))).sum(),
    )


def bump(rng: Random, d: int, n: int, reach: float) -> Piece:
    """A bump around c, of which exp(−|w − c|²/2) leaves nothing a few units away."""
    a = number(rng.choice([0.3, 1.0, 3.0]))
    at = rng.sample(range(d), min(d, 3))
    c = tuple(number(rng.uniform(0.3, 1) * reach * rng.choice([-1, 1])) if i in at else 0.0 for i in range(d))
    u = [number(d**-0.5)] * d
    steep = tuple(x + 1.0 / len(at) ** 0.5 if i in at else x for i, x in enumerate(c))  # where the slope is largest

    def value(w: Tensor, lam: Tensor) -> Tensor:
        here = torch.exp(-((w - torch.tensor(c, dtype=w.dtype)) ** 2).sum() / 2)
        return a * torch.tensor(u, dtype=w.dtype) * here

    def exact(w: Vector, lam: Vector) -> Vector:
        here = mp.exp(-mp.fsum((x - y) ** 2 for x, y in zip(w, c, strict=True)) / 2)
        return [a * x * here for x in u]

    other = tuple(2 * x - y for x, y in zip(c, steep, strict=True))
    return Piece("bump", f"{a:.3g}·u·exp(−|w − c|²/2), c = {c}", value, exact, (steep, c, other), lopsided=d > 1)


def far_tanh(rng: Random, d: int, n: int, reach: float) -> Piece:
    """tanh around c: in floating point a constant some twenty units away."""
    a, c = number(rng.uniform(0.05, 0.4)), number(rng.choice([-1, 1]) * rng.uniform(0.5, 1) * max(reach, 1))
    return Piece(
        "plateau",
        f"{a:.3g}·tanh(w − {c:.4g})",
        lambda w, lam: a * torch.tanh(w - c),
        lambda w, lam: [a * mp.tanh(x - c) for x in w],
        near(c, d, 0.6, -0.6),
    )


def cubic(rng: Random, d: int, n: int, reach: float) -> Piece:
    """w³, flat near 0."""
    a = number(rng.choice([1e-2, 1e-4]) / max(reach, 1) ** 2)
    return Piece(
        "plateau",
        f"{a:.3g}·w³",
        lambda w, lam: a * w**3,
        lambda w, lam: [a * x**3 for x in w],
        near(reach, d, -reach / 2),
        lambda w, lam: a / 4 * (w**4).sum(),
    )


def flat(rng: Random, d: int, n: int, reach: float) -> Piece:
    """exp(−1/w²): every derivative at 0 is 0, and it is not constant."""
    a = number(rng.uniform(0.05, 0.3))
    return Piece(
        "plateau",
        f"{a:.3g}·exp(−1/w²)",
        lambda w, lam: a * torch.exp(-1 / (w**2 + 1e-300 if w.dtype == torch.float64 else w**2 + 1e-30)),
        lambda w, lam: [a * mp.exp(-1 / x**2) if abs(x) > 1e-13 else mp.mpf(0) for x in w],
        near(0.8165, d, -1.633),  # where the slope 2/w³·exp(−1/w²) is largest
    )


def wave(rng: Random, d: int, n: int, reach: float) -> Piece:
    a, b = number(rng.uniform(0.02, 0.2)), number(rng.choice([0.5, 1.0, 3.0]))
    peak = 3.141592653589793 / b
    return Piece(
        "smooth",
        f"{a:.3g}·sin({b:g}w)",
        lambda w, lam: a * torch.sin(b * w),
        lambda w, lam: [a * mp.sin(b * x) for x in w],
        near(0.0, d, peak, -peak, peak / 2),
        lambda w, lam: -(a / b * torch.cos(b * w)).sum(),
    )


def with_lam(rng: Random, d: int, n: int, reach: float) -> Piece:
    """w times a function of λ, so that ∂₂Φ and ∇₂E change with w."""
    a = number(rng.uniform(0.02, 0.15))
    return Piece(
        "product",
        f"{a:.3g}·w·sin(λ₀)",
        lambda w, lam: a * w * torch.sin(lam[0]),
        lambda w, lam: [a * x * mp.sin(lam[0]) for x in w],
        near(reach, d),
        lambda w, lam: a / 2 * (w * w).sum() * torch.sin(lam[0]),
    )


def saddle(rng: Random, d: int, n: int, reach: float) -> Piece:
    """a·(tanh(bw) − w/2): with the linear part it makes several fixed points, left slowly or fast."""
    a, b = number(rng.uniform(0.3, 1.2)), number(rng.choice([1.0, 2.0]))
    return Piece(
        "several",
        f"{a:.3g}·tanh({b:g}w)",
        lambda w, lam: a * torch.tanh(b * w),
        lambda w, lam: [a * mp.tanh(b * x) for x in w],
        near(0.0, d, 0.66 / b, -0.66 / b),
        lambda w, lam: (-a / b * torch.nn.functional.logsigmoid(-2 * b * w) - a * w).sum(),
    )


SMOOTH = (step, step, bump, bump, far_tanh, cubic, flat, wave, with_lam, saddle)

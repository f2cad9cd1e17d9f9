"""Functions in pieces, by every spelling: |x|, max|x|, relu and Huber's function as strangers write them.

All spellings of one function share one formula in mpmath. x is w − c with c apart from 0 and from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch
import torch.nn.functional as F
from torch import Tensor

from .case import number
from .exact import mp
from .smooth import Piece, near


def _grid_sample(x: Tensor) -> Tensor:
    """|x| for |x| ≤ 64: an image of three pixels 64, 0, 64 with straight lines between them."""
    image = torch.tensor([64.0, 0.0, 64.0], dtype=x.dtype).reshape(1, 1, 1, 3)
    grid = torch.stack([x / 64, torch.zeros_like(x)], dim=-1).reshape(1, 1, -1, 2)
    return F.grid_sample(image, grid, align_corners=True, padding_mode="border").sum()


class _AbsAsModule(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x) + F.relu(-x)


# Σ|x_i|
SUMS: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": lambda x: x.abs().sum(),
    "norm(p=1)": lambda x: x.norm(p=1),
    "linalg.norm(ord=1)": lambda x: torch.linalg.norm(x, ord=1),
    "linalg.vector_norm(ord=1)": lambda x: torch.linalg.vector_norm(x, ord=1),
    "pairwise_distance(p=1)": lambda x: F.pairwise_distance(x[None], torch.zeros_like(x)[None], p=1, eps=0.0).sum(),
    "cdist(p=1)": lambda x: torch.cdist(x[None], torch.zeros_like(x)[None], p=1).sum(),
    "dist(p=1)": lambda x: torch.dist(x, torch.zeros_like(x), p=1),
    "l1_loss": lambda x: F.l1_loss(x, torch.zeros_like(x), reduction="sum"),
    "sqrt(x²)": lambda x: (x**2).sqrt().sum(),
    "x·sign(x)": lambda x: (x * torch.sign(x)).sum(),
    "x·sgn(x)": lambda x: (x * torch.sgn(x)).sum(),
    "copysign": lambda x: torch.copysign(x, torch.ones_like(x)).sum(),
    "maximum(x, −x)": lambda x: torch.maximum(x, -x).sum(),
    "stack.max": lambda x: torch.stack([x, -x]).max(dim=0).values.sum(),
    "amax": lambda x: torch.stack([x, -x]).amax(dim=0).sum(),
    "sort": lambda x: torch.stack([x, -x]).sort(dim=0).values[1].sum(),
    "topk": lambda x: torch.stack([x, -x]).topk(1, dim=0).values.sum(),
    "median": lambda x: -torch.stack([x, -x]).median(dim=0).values.sum(),
    "where": lambda x: torch.where(x > 0, x, -x).sum(),
    "signbit": lambda x: (x * (1 - 2 * torch.signbit(x).to(x.dtype))).sum(),
    "angle": lambda x: (x * torch.cos(torch.angle(x))).sum(),
    "atan2": lambda x: (x * torch.cos(torch.atan2(torch.zeros_like(x), x))).sum(),
    "complex log": lambda x: (x * torch.cos(torch.log(torch.complex(x, torch.zeros_like(x))).imag)).sum(),
    "complex abs": lambda x: torch.complex(x, torch.zeros_like(x)).abs().sum(),
    "heaviside": lambda x: (x * (2 * torch.heaviside(x, torch.zeros_like(x)) - 1)).sum(),
    "hypot": lambda x: torch.hypot(x, torch.zeros_like(x)).sum(),
    "module of relus": lambda x: _AbsAsModule()(x).sum(),
    "grid_sample": _grid_sample,
}

# max|x_i|
LARGEST: dict[str, Callable[[Tensor], Tensor]] = {
    "norm(p=inf)": lambda x: x.norm(p=float("inf")),
    "linalg.vector_norm(ord=inf)": lambda x: torch.linalg.vector_norm(x, ord=float("inf")),
    "abs().max()": lambda x: x.abs().max(),
    "cummax": lambda x: x.abs().cummax(0).values[-1],
    "cdist(p=inf)": lambda x: torch.cdist(x[None], torch.zeros_like(x)[None], p=float("inf")).sum(),
}

# max(x, 0), entry by entry
RELUS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "clamp": lambda x: x.clamp(min=0),
    "hardtanh": lambda x: F.hardtanh(x, 0.0, 1e6),
    "threshold": lambda x: F.threshold(x, 0.0, 0.0),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.0),
    "where": lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
    "masked_fill": lambda x: x.masked_fill(x < 0, 0.0),
    "x·(x > 0)": lambda x: x * (x > 0),
    "x·bool": lambda x: x * x.clamp(min=0).bool(),
    "div(rounding_mode=floor)": lambda x: x * (1 + torch.div(x, 1e6, rounding_mode="floor")),
    "floor_divide": lambda x: x * (1 + torch.floor_divide(x, 1e6)),
    "ceil": lambda x: x * torch.ceil(x / 1e6),
    "signbit": lambda x: x * (~torch.signbit(x)).to(x.dtype),
    "half angle": lambda x: x * (1 - torch.angle(x) / 3.141592653589793),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "fmax": lambda x: torch.fmax(x, torch.zeros_like(x)),
}


def kink_of_map(rng: Random, d: int, n: int, reach: float) -> Piece:
    name = rng.choice(sorted(RELUS))
    spelling, a = RELUS[name], number(rng.choice([0.05, 0.2, 0.35]) * rng.choice([-1, 1]))
    c = number(rng.choice([-1, 1]) * rng.uniform(0.1, 1) * reach)
    return Piece(
        "kink",
        f"{a:.3g}·relu(w − {c:.4g}) by {name}",
        lambda w, lam: a * spelling(w - c),
        lambda w, lam: [a * (x - c) if x > c else mp.mpf(0) for x in w],
        near(c, d, 0.05 * reach, -0.05 * reach, 0.5 * reach, -0.5 * reach),
    )


def kink_of_outer(rng: Random, d: int, n: int, reach: float) -> Piece:
    a, c = number(rng.choice([0.3, 1.0, 3.0])), number(rng.choice([-1, 1]) * rng.uniform(0.1, 1) * reach)
    beside = near(c, d, 0.05 * reach, -0.05 * reach, 0.5 * reach, -0.5 * reach)
    of = rng.choice(["sum", "sum", "largest", "huber"])
    if of == "sum":
        name = rng.choice(sorted(SUMS))
        return Piece(
            "kink",
            f"{a:.3g}·Σ|w − {c:.4g}| by {name}",
            lambda w, lam: a * SUMS[name](w - c),
            lambda w, lam: a * mp.fsum(abs(x - c) for x in w),
            beside,
        )
    if of == "largest":
        name = rng.choice(sorted(LARGEST))
        return Piece(
            "kink",
            f"{a:.3g}·max|w − {c:.4g}| by {name}",
            lambda w, lam: a * LARGEST[name](w - c),
            lambda w, lam: a * max(abs(x - c) for x in w),
            beside,
        )
    return Piece(
        "kink",
        f"{a:.3g}·huber(w, {c:.4g})",
        lambda w, lam: a * F.huber_loss(w, torch.full_like(w, c), reduction="sum"),
        lambda w, lam: a * mp.fsum((x - c) ** 2 / 2 if abs(x - c) <= 1 else abs(x - c) - mp.mpf(0.5) for x in w),
        (*beside, *near(c, d, 2.0, -2.0)),
    )

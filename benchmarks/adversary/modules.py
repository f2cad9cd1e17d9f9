"""nn.Modules as strangers write them: ridge regression whose penalty or prediction reaches the weights by many ways.

ℓ = mean((Xw + b − y)²) + e^λ·c·‖w‖² and E = mean((X'w + b − y')²), with b = 0 or frozen. So
∇ℓ = (2/m)Xᵀ(Xw + b − y) + 2e^λ·c·w. Tied weights appear twice: Xw is 2Xw then, and c‖w‖² is 2c‖w‖².
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from .case import Case, number
from .exact import Vector, mp

ROWS = 4


class Net(nn.Module):
    """One linear layer, with what people write around it."""

    def __init__(self, d: int, dtype: torch.dtype, *, bias: float | None = None, counts: bool = False) -> None:
        super().__init__()
        self.a = nn.Linear(d, 1, bias=bias is not None, dtype=dtype)
        if bias is not None:
            nn.init.constant_(self.a.bias, bias)
            self.a.bias.requires_grad_(False)
        self.counts = counts
        self.register_buffer("seen", torch.zeros((), dtype=dtype))

    def forward(self, X: Tensor) -> Tensor:
        if self.counts:
            self.seen = self.seen + 1
        return self.a(X) + 0.01 * self.seen

    def l2(self) -> Tensor:
        return (self.a.weight**2).sum()


class Tied(nn.Module):
    """Two layers that share their weight."""

    def __init__(self, d: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.a, self.b = (nn.Linear(d, 1, bias=False, dtype=dtype) for _ in range(2))
        self.b.weight = self.a.weight

    def forward(self, X: Tensor) -> Tensor:
        return self.a(X) + self.b(X)

    def l2(self) -> Tensor:
        return (self.a.weight**2).sum() + (self.b.weight**2).sum()


def _linears(m: nn.Module) -> list[Any]:
    return [part for part in m.modules() if isinstance(part, nn.Linear)]


PENALTIES: dict[str, Callable[[Any], Any]] = {
    "m.l2()": lambda m: m.l2(),
    "m.children()": lambda m: sum((part.weight**2).sum() for part in m.children()),
    "m.named_children()": lambda m: sum((part.weight**2).sum() for _, part in m.named_children()),
    "m.modules()": lambda m: sum((part.weight**2).sum() for part in _linears(m)),
    "m.get_parameter": lambda m: (m.get_parameter("a.weight") ** 2).sum(),
    "m.get_submodule": lambda m: (m.get_submodule("a").weight ** 2).sum(),
    "m.state_dict(keep_vars=True)": lambda m: (m.state_dict(keep_vars=True)["a.weight"] ** 2).sum(),
    "m.state_dict()": lambda m: (m.state_dict()["a.weight"] ** 2).sum(),  # detached: plain PyTorch sees no gradient
    "m.parameters()": lambda m: sum((p**2).sum() for p in m.parameters() if p.requires_grad),
    "m.named_parameters()": lambda m: sum((p**2).sum() for name, p in m.named_parameters() if "weight" in name),
    "m.a.weight": lambda m: (m.a.weight**2).sum(),
    "m._modules": lambda m: (m._modules["a"].weight ** 2).sum(),
    "getattr": lambda m: (getattr(m.a, "weight") ** 2).sum(),  # noqa: B009
    "parameters_to_vector": lambda m: parameters_to_vector([m.a.weight]).square().sum(),
}
STYLES = (*PENALTIES, "forward", "tied", "closure", "sequential", "frozen", "buffer", "tied children")


def module_case(rng: Random, at: int, dtype: torch.dtype, style: str | None = None) -> Case:
    """Ridge regression in one of the styles."""
    style = style or rng.choice(STYLES)
    d, lam = rng.choice([1, 2, 3]), number(rng.uniform(-1.5, 0.5))
    data = [[number(rng.gauss(0, 1)) for _ in range(d)] for _ in range(2 * ROWS)]
    y = [number(rng.gauss(0, 1)) for _ in range(2 * ROWS)]
    X, y_t = torch.tensor(data, dtype=dtype), torch.tensor(y, dtype=dtype)
    twice = 2 if style.startswith("tied") else 1
    c, b = 0.5, number(0.25) if style == "frozen" else 0.0
    if style == "sequential":
        m: nn.Module = nn.Sequential(nn.Linear(d, 1, bias=False, dtype=dtype))
    elif twice == 2:
        m = Tied(d, dtype)
    else:
        m = Net(d, dtype, bias=b if style == "frozen" else None, counts=style == "buffer")
    start = [number(rng.gauss(0, 1)) if rng.random() < 0.5 else 0.0 for _ in range(d)]
    with torch.no_grad():
        next(iter(m.parameters())).copy_(torch.tensor([start], dtype=dtype))
    penalty = PENALTIES.get(style, PENALTIES["m.l2()"])
    if style == "sequential":
        penalty = lambda m: (m[0].weight ** 2).sum()  # noqa: E731
    if style == "tied children":
        penalty = PENALTIES["m.children()"]

    def inner(given: Any, lam: Tensor) -> Tensor:
        used = m if style == "closure" else given
        predicted = used.forward(X[:ROWS]) if style == "forward" else used(X[:ROWS])
        return ((predicted[:, 0] - y_t[:ROWS]) ** 2).mean() + lam.exp().sum() * c * penalty(used)

    def outer(given: Any, lam: Tensor) -> Tensor:
        used = m if style == "closure" else given
        return ((used(X[ROWS:])[:, 0] - y_t[ROWS:]) ** 2).mean()

    largest = max(sum(x * x for x in row) for row in data)
    alpha = number(0.5 / (twice**2 * largest * 2 + 4 * c * twice))

    def residual(w: Vector, i: int) -> Any:
        return twice * mp.fsum(x * v for x, v in zip(data[i], w, strict=True)) + b - y[i]

    def phi(w: Vector, lam: Vector) -> Vector:
        r = [residual(w, i) for i in range(ROWS)]
        of_data = [mp.fsum(2 * twice * r[i] * data[i][j] for i in range(ROWS)) / ROWS for j in range(d)]
        return [w[j] - alpha * (of_data[j] + 2 * twice * c * mp.exp(lam[0]) * w[j]) for j in range(d)]

    def exact_outer(w: Vector, lam: Vector) -> Any:
        return mp.fsum(residual(w, ROWS + i) ** 2 for i in range(ROWS)) / ROWS

    return Case(
        at, ("module",), f"ridge, d = {d}, by {style}", inner, outer, m, torch.tensor([lam], dtype=dtype), start, [lam],
        phi, exact_outer, dtype, alpha, legal=style not in ("buffer", "m.state_dict()"), unique=True,
        undefined=style == "buffer",
    )  # fmt: skip

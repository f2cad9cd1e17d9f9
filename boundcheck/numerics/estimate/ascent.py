"""Suprema over a ball from below: many starts as rows of one batch, each climbing without ever losing height.

What is maximised is h(w, v), for w in the ball and v on the unit sphere: ‖F(w)ᵀv‖, whose supremum over v is the
spectral norm, or ‖F(w)‖ where F is a vector and v is empty. Every value is one that h takes, so that the best of them
is a lower estimate whatever the landscape; only how close it comes is left to the climbing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.bilevel.closed_forms import Region

LARGEST_STEP = 8.0  # times the radius: from there on a step goes to where the linear model is largest
Apply = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Supremum:
    """The best value found of a supremum, hence a lower estimate of it, and signs of its quality.

    `products` counts vectors: a product with ∂₁Φ, ∂₂Φ, a transpose of them, ∇₁E or ∇₂E is 1 for each row, and so is a
    second-order product (the derivative of such a vector along one direction, or its transpose).
    """

    value: float
    spread: float  # (best − median over starts)/best: near 0 means that the starts agree
    starts: int
    products: int
    converged: bool  # the last round brought nothing; if not, the budget ended first


@dataclass(frozen=True, eq=False)
class Slopes:
    """h(w, v) for each row, and its gradients; that by v is the power step, in the direction of the best v for w."""

    value: Tensor  # (rows,)
    by_w: Tensor
    by_v: Tensor


Objective = Callable[[Tensor, Tensor], Slopes]


@dataclass(frozen=True, eq=False)
class Climb:
    """Where each row stands, how high, and the step it tries next."""

    w: Tensor
    v: Tensor
    step: Tensor
    value: Tensor


def dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(dim=-1, keepdim=True)


def unit(x: Tensor, otherwise: Tensor | None = None) -> Tensor:
    """Rows of length 1; rows of zeros stay, or become those of `otherwise`."""
    length = x.norm(dim=-1, keepdim=True)
    scaled = x / torch.where(length > 0, length, 1)
    return scaled if otherwise is None else torch.where(length > 0, scaled, otherwise)


def project(region: Region, w: Tensor) -> Tensor:
    away = w - region.point
    length = away.norm(dim=-1, keepdim=True)
    outside = length > region.radius
    return torch.where(outside, region.point + away * (region.radius / torch.where(outside, length, 1)), w)


def ascend(objective: Objective, w: Tensor, v: Tensor, region: Region, step: Tensor, steps: int) -> Climb:
    """Projected gradient steps in w, each with a power step in v, taken by the rows which they do not take down.

    A row that refuses halves its step; as that shrinks the trial tends to the power step alone, which never loses.
    """
    current = objective(w, v)
    for _ in range(steps):
        w_tried = project(region, w + step * unit(current.by_w))
        v_tried = unit(current.by_v, otherwise=v)
        tried = objective(w_tried, v_tried)
        better = tried.value >= current.value
        take = better[:, None]
        w, v = torch.where(take, w_tried, w), torch.where(take, v_tried, v)
        current = Slopes(
            torch.where(better, tried.value, current.value),
            torch.where(take, tried.by_w, current.by_w),
            torch.where(take, tried.by_v, current.by_v),
        )
        step = torch.where(take, 2 * step, step / 2).clamp(max=LARGEST_STEP * region.radius)
    return Climb(w, v, step, current.value)


def top(apply: Apply, x: Tensor, steps: int) -> Tensor:
    """Unit rows x with ‖Bx‖ raised towards ‖B‖, from x ↦ BᵀBx: conjugate gradients on the Rayleigh quotient.

    Each step is the best one in the plane of x and the search direction p, so the quotient never falls; where the
    largest singular values lie close together it needs the square root of the steps of the power method.
    """
    x = unit(x)
    Ax = apply(x)
    p, Ap, g_before = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
    rounding, shortest = torch.finfo(x.dtype).eps ** 2, 1e4 * torch.finfo(x.dtype).tiny ** 0.5
    for _ in range(steps):
        g = Ax - dot(x, Ax) * x
        size = dot(g_before, g_before)
        clear = size > rounding * dot(Ax, Ax)  # a smaller gradient is rounding, and its square may underflow
        beta = (dot(g, g - g_before) / torch.where(clear, size, 1)).clamp(min=0) * clear  # Polak and Ribière
        p, Ap = g + beta * p, apply(g) + beta * Ap
        along = dot(x, p)
        p, Ap = p - along * x, Ap - along * Ax
        length = p.norm(dim=-1, keepdim=True)
        length = torch.where(length > shortest, length, 0)  # of a shorter one the squares underflow
        scale = torch.where(length > 0, length, torch.inf)
        p, Ap = p / scale, Ap / scale
        angle = torch.atan2(2 * dot(x, Ap), dot(x, Ax) - dot(p, Ap)) / 2
        c, s = angle.cos(), angle.sin()
        x, Ax, p, Ap = c * x + s * p, c * Ax + s * Ap, (c * p - s * x) * length, (c * Ap - s * Ax) * length
        g_before = g
    return unit(x)


class FiniteWatch:
    """Remembers on the device where a quantity was not finite, for the host to ask when it waits anyway."""

    def __init__(self, problem: str, quantity: str, region: Region) -> None:
        self._problem, self._quantity, self._region = problem, quantity, region
        self._at = region.point.new_full((2,), -1.0)  # ‖w‖ and ‖w − centre‖
        self._product = region.point.new_zeros(1)  # 1 where a product with the quantity was not finite

    def look(self, value: Tensor, w: Tensor) -> None:
        lengths = torch.stack((w.norm(dim=-1), (w - self._region.point).norm(dim=-1)))
        distance = torch.where(torch.isfinite(value), -1.0, lengths).amax(dim=-1)
        self._at = torch.where(self._at < 0, distance, self._at)

    def look_at_products(self, u: Tensor, products: Sequence[Tensor]) -> None:
        """Remember whether products with a finite u are finite, before any value is found not to be."""
        for product in products:
            bad = (torch.isfinite(u).all() & ~torch.isfinite(product).all()).to(self._product)
            self._product = torch.where(self._at[:1] < 0, torch.maximum(self._product, bad), self._product)

    def check(self, *values: Tensor) -> list[float]:
        """The values as numbers of the host, or the error; one wait for all."""
        every = (self._at, self._product, *(value.reshape(1) for value in values))
        norm, distance, of_product, *numbers = torch.cat(every).cpu().tolist()
        if norm >= 0 and of_product:
            raise DivergenceError(
                f"{self._problem}: a product with {self._quantity} is not finite, although products with its transpose "
                "are: PyTorch's derivative of a backward pass is not finite, as that of torch.cdist where two points "
                "coincide; write squared distances as ((x[:, None] - y) ** 2).sum(-1), and look for a root of 0"
            )
        if norm >= 0:
            raise DivergenceError(
                f"{self._problem}: {self._quantity} is not finite at a w with ‖w‖ = {norm:.3g}, at distance "
                f"{distance:.3g} from the centre {self._region.centre} of the region; take a smaller one "
                f"(ball='local', or a radius below {self._region.radius:.3g}), or check the function for overflow"
            )
        return numbers


class NormalDraws:
    """Normal numbers from a seed, the same on every device and in every dtype."""

    def __init__(self, seed: int, like: Tensor) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InputError(f"seed must be a whole number (got {seed!r})")
        self._generator, self._like = torch.Generator(device="cpu").manual_seed(seed), like

    def directions(self, rows: int, d: int) -> Tensor:
        return unit(torch.randn(rows, d, generator=self._generator, dtype=torch.float64, device="cpu").to(self._like))

    def points(self, region: Region, rows: int) -> Tensor:
        """By turns on the sphere, and inside at a distance from the centre that is uniform."""
        share = torch.rand(rows, 1, generator=self._generator, dtype=torch.float64, device="cpu").to(self._like)
        share[::2] = 1
        return region.point + region.radius * share * self.directions(rows, region.point.numel())


def starts(region: Region, rows: int, informed: Sequence[Tensor], draws: NormalDraws) -> Tensor:
    """`rows` points: the informed ones, projected, and random ones; a quarter at least are random."""
    few = torch.cat([w.reshape(-1, region.point.numel()) for w in informed])[: rows - rows // 4]
    few = torch.where(torch.isfinite(few).all(dim=-1, keepdim=True), few, region.point)  # iterates may diverge
    return torch.cat((project(region, few), draws.points(region, rows - len(few))))

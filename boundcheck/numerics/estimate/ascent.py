"""Lower estimates of suprema over a ball, by ascent from many starts.

The starts are the rows of one batch, and the value of a row never falls. The objective is h(w, v), with w in the ball
and v on the unit sphere: ‖F(w)ᵀv‖, whose supremum over v is the spectral norm, or ‖F(w)‖ if F is a vector and v is
empty. Every computed value is attained by h, so the best value is a lower estimate of the supremum for every h. How
close it comes depends on the ascent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.bilevel.closed_forms import Region

LARGEST_STEP = 8.0  # times the radius: such a step almost reaches the maximum of the linear model over the ball
Apply = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Supremum:
    """The largest value found, which is a lower estimate of the supremum, with indicators of its quality.

    `products` counts vectors. A product with ∂₁Φ, ∂₂Φ or a transpose, and an evaluation of ∇₁E or ∇₂E, count 1 for
    each row. So does a second-order product: the derivative of such a vector along one direction, or its transpose.
    """

    value: float
    spread: float  # (best − median over the starts)/best; near 0 if the starts agree
    starts: int
    products: int
    converged: bool  # True if the last round gave no improvement, False if the budget ended first


@dataclass(frozen=True, eq=False)
class Slopes:
    """h(w, v) for each row, with its gradients. `by_v` is the power step: its direction is a better v for this w."""

    value: Tensor  # (rows,)
    by_w: Tensor
    by_v: Tensor


Objective = Callable[[Tensor, Tensor], Slopes]


@dataclass(frozen=True, eq=False)
class Climb:
    """The point, the value and the next step size of each row."""

    w: Tensor
    v: Tensor
    step: Tensor
    value: Tensor


def dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(dim=-1, keepdim=True)


def unit(x: Tensor, otherwise: Tensor | None = None) -> Tensor:
    """Scale rows to length 1. Rows of zeros stay zero, or are replaced by the rows of `otherwise`."""
    length = x.norm(dim=-1, keepdim=True)
    scaled = x / torch.where(length > 0, length, 1)
    return scaled if otherwise is None else torch.where(length > 0, scaled, otherwise)


def project(region: Region, w: Tensor) -> Tensor:
    away = w - region.point
    length = away.norm(dim=-1, keepdim=True)
    outside = length > region.radius
    return torch.where(outside, region.point + away * (region.radius / torch.where(outside, length, 1)), w)


def ascend(objective: Objective, w: Tensor, v: Tensor, region: Region, step: Tensor, steps: int) -> Climb:
    """Take projected gradient steps in w together with power steps in v.

    Each row accepts a step only if its value does not fall. A row that rejects a step halves its step size. As the
    size shrinks, the trial tends to the power step alone, which never lowers the value.
    """
    current = objective(w, v)
    for _ in range(steps):
        w_tried = project(region, w + step * unit(current.by_w))
        v_tried = unit(current.by_v, otherwise=v)
        trial = objective(w_tried, v_tried)
        better = trial.value >= current.value
        take = better[:, None]
        w, v = torch.where(take, w_tried, w), torch.where(take, v_tried, v)
        current = Slopes(
            torch.where(better, trial.value, current.value),
            torch.where(take, trial.by_w, current.by_w),
            torch.where(take, trial.by_v, current.by_v),
        )
        step = torch.where(take, 2 * step, step / 2).clamp(max=LARGEST_STEP * region.radius)
    return Climb(w, v, step, current.value)


def top(apply: Apply, x: Tensor, steps: int) -> Tensor:
    """Return unit rows x whose ‖Bx‖ is close to ‖B‖, by conjugate gradients on the Rayleigh quotient of BᵀB.

    `apply` is x ↦ BᵀBx. Each step is the best one in the plane of x and the search direction p, so the quotient never
    falls. If the largest singular values are close together, the number of steps is about the square root of the
    number that the power method takes.
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
        length = torch.where(length > shortest, length, 0)  # the squares of shorter vectors underflow
        scale = torch.where(length > 0, length, torch.inf)
        p, Ap = p / scale, Ap / scale
        angle = torch.atan2(2 * dot(x, Ap), dot(x, Ax) - dot(p, Ap)) / 2
        c, s = angle.cos(), angle.sin()
        x, Ax, p, Ap = c * x + s * p, c * Ax + s * Ap, (c * p - s * x) * length, (c * Ap - s * Ax) * length
        g_before = g
    return unit(x)


class FiniteWatch:
    """Records on the device where a quantity was not finite. The host reads it when it waits for other values."""

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
    """Random directions and points from a seed, the same on every device and in every dtype."""

    def __init__(self, seed: int, like: Tensor) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InputError(f"seed must be a whole number (got {seed!r})")
        self._generator, self._like = torch.Generator(device="cpu").manual_seed(seed), like

    def directions(self, rows: int, d: int) -> Tensor:
        return unit(torch.randn(rows, d, generator=self._generator, dtype=torch.float64, device="cpu").to(self._like))

    def points(self, region: Region, rows: int) -> Tensor:
        """Draw points alternately on the sphere and inside it, with a uniform distance from the centre."""
        share = torch.rand(rows, 1, generator=self._generator, dtype=torch.float64, device="cpu").to(self._like)
        share[::2] = 1
        return region.point + region.radius * share * self.directions(rows, region.point.numel())


def starts(region: Region, rows: int, informed: Sequence[Tensor], draws: NormalDraws) -> Tensor:
    """Return `rows` starts: the points of `informed`, projected to the region, and at least a quarter random points."""
    informed_points = torch.cat([w.reshape(-1, region.point.numel()) for w in informed])[: rows - rows // 4]
    finite = torch.isfinite(informed_points).all(dim=-1, keepdim=True)  # iterates may diverge
    informed_points = torch.where(finite, informed_points, region.point)
    return torch.cat((project(region, informed_points), draws.points(region, rows - len(informed_points))))

"""How much tanh bends on a ball: what the constants of equilibrium models share.

Each number u = (weights)·w + drive stays within r‖weights‖ of its value at the centre of a ball of radius r, so that
x = |tanh u| stays in an interval, and on it
* tanh' = 1 − x² is largest at its lower end (`slope`),
* |tanh''| = 2x(1 − x²), which rises up to 1/√3 and falls after it, at the point next to 1/√3 (`bend`); τ = 4/(3√3) at
  most.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.problems.parts.norm_bounds import largest


@dataclass(frozen=True, eq=False)
class Bends:
    """The intervals of x = |tanh u|, one for each u."""

    low: Tensor
    high: Tensor

    @classmethod
    def around(cls, u: Tensor, reach: Tensor) -> Bends:
        """For numbers that stay within `reach` of u."""
        return cls((u.abs() - reach).clamp(min=0).tanh(), (u.abs() + reach).tanh())

    def within(self, x: Tensor) -> Tensor:
        """The point of each interval that is next to x."""
        return torch.minimum(torch.maximum(x, self.low), self.high)

    @property
    def slope(self) -> Tensor:
        """sup tanh'."""
        return 1 - self.low**2

    @property
    def bend(self) -> Tensor:
        """sup |tanh''|."""
        x = self.within(torch.full_like(self.low, 3**-0.5))
        return 2 * x * (1 - x**2)

    def row(self, k: Tensor, m: Tensor) -> Tensor:
        """sup (1 − x²)(1 + 4kx + 4mx²)^½ for k, m ≥ 0.

        Its derivative has the sign of k + (2m − 1)x − 5kx² − 6mx³, which by Descartes' rule has one positive root at
        most: the function rises up to it and falls after it, so that its place in the interval is next to that root.
        """
        low, high = torch.zeros_like(k), torch.ones_like(k)
        for _ in range(60):
            x = (low + high) / 2
            rises = k + x * (2 * m - 1 - x * (5 * k + 6 * m * x)) > 0
            low, high = torch.where(rises, x, low), torch.where(rises, high, x)
        x = self.within(low)
        return (1 - x**2) * (1 + 4 * x * (k + m * x)).sqrt()


def widest(gram: Tensor, states: int, step: Tensor | float) -> Tensor:
    """An upper bound of ‖[M + N, R]‖ over ‖N‖ ≤ step, from the Gram matrix of [M, R]; M has `states` columns.

    By the triangle inequality ‖[M, R]‖ + step, and by ‖[M + N, R]‖² ≤ (‖M‖ + step)² + ‖R‖²; the lesser of both.
    """
    M, R = largest(gram[..., :states, :states]).sqrt(), largest(gram[..., states:, states:]).sqrt()
    return torch.minimum(largest(gram).sqrt() + step, torch.hypot(M + step, R))

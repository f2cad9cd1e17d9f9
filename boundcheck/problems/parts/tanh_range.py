"""Bounds on the derivatives of tanh on a ball, for the constants of equilibrium models.

On a ball of radius r, each number u = (weights)·w + drive is within r‖weights‖ of its value at the centre. So
x = |tanh u| is in an interval, and on this interval
* tanh' = 1 − x² is largest at the lower end (`slope`),
* |tanh''| = 2x(1 − x²) is largest at the point nearest to 1/√3, because it rises up to 1/√3 and then falls (`bend`); it
  is at most τ = 4/(3√3).
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
        """Return the intervals for numbers within `reach` of u."""
        return cls((u.abs() - reach).clamp(min=0).tanh(), (u.abs() + reach).tanh())

    def within(self, x: Tensor) -> Tensor:
        """Return the point of each interval that is nearest to x."""
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
        """Return sup (1 − x²)(1 + 4kx + 4mx²)^½ for k, m ≥ 0.

        The derivative has the sign of k + (2m − 1)x − 5kx² − 6mx³, which by Descartes' rule has at most one positive
        root. The function rises up to this root and then falls, so it is largest at the point nearest to the root.
        """
        low, high = torch.zeros_like(k), torch.ones_like(k)
        for _ in range(60):
            x = (low + high) / 2
            rises = k + x * (2 * m - 1 - x * (5 * k + 6 * m * x)) > 0
            low, high = torch.where(rises, x, low), torch.where(rises, high, x)
        x = self.within(low)
        return (1 - x**2) * (1 + 4 * x * (k + m * x)).sqrt()


def widest(gram: Tensor, states: int, step: Tensor | float) -> Tensor:
    """Return an upper bound of ‖[M + N, R]‖ over ‖N‖ ≤ step, from the Gram matrix of [M, R]; M has `states` columns.

    It is the lesser of ‖[M, R]‖ + step (triangle inequality) and ((‖M‖ + step)² + ‖R‖²)^½.
    """
    M, R = largest(gram[..., :states, :states]).sqrt(), largest(gram[..., states:, states:]).sqrt()
    return torch.minimum(largest(gram).sqrt() + step, torch.hypot(M + step, R))

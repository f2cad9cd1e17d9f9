"""The spread of N matrices J_i around their mean: λmax of (1/N)Σ(J_i − J)ᵀ(J_i − J) and of (1/N)Σ(J_i − J)(J_i − J)ᵀ.

Each J_i is known up to an error in norm. √λmax is a norm of the family (J_i − J)_i, and subtracting the mean does not
increase it, so √λmax ≤ √λmax(computed) + (mean of the squares of the errors)^½.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, largest_eigenvalue
from boundcheck.numerics.program.enclosure.intervals import UP


@dataclass(eq=False)
class Spread:
    """Sums over matrices of shape (d, n), each known up to an error `off`."""

    left: bool = True  # whether JJᵀ is summed
    right: bool = True  # whether JᵀJ is summed
    count: int = 0
    sizes: float = 0.0
    offs: float = 0.0
    total: Tensor | None = None
    products: dict[str, Tensor] = field(default_factory=dict)

    def add(self, J: Tensor, off: float) -> None:
        """Add a matrix."""
        self.count += 1
        self.sizes += frobenius(J) ** 2
        self.offs += off**2
        self.total = J.clone() if self.total is None else self.total.add_(J)
        if self.left:
            self._add_product("left", J @ J.T)
        if self.right:
            self._add_product("right", J.T @ J)

    def _add_product(self, name: str, product: Tensor) -> None:
        self.products[name] = product + self.products[name] if name in self.products else product

    def largest(self) -> float:
        """Return an upper bound on λmax of the requested means of squares, including the errors of the matrices."""
        if self.total is None:
            return 0.0
        N = self.count
        mean = self.total / N
        best = 0.0
        for name, product in self.products.items():
            square = mean @ mean.T if name == "left" else mean.T @ mean
            rounding = gamma(N + sum(mean.shape) + 8) * (self.sizes / N + 2 * frobenius(mean) ** 2 + self.sizes / N)
            best = max(best, largest_eigenvalue(product / N - square) + rounding)
        return (math.sqrt(max(best, 0.0)) + math.sqrt(self.offs / N)) ** 2 * UP


def spread_of_rows(rows: Tensor, off: Tensor) -> tuple[float, float]:
    """Return the computed (1/N)Σ‖g_i − g‖² and an upper bound on it for exact rows within `off_i` of these rows."""
    N, d = rows.shape
    centred = rows - rows.mean(0)
    value = float((centred * centred).sum()) / N
    sizes = frobenius(rows) / math.sqrt(N)
    rounding = gamma(N + 4) * 2 * sizes
    root = math.sqrt(value * (1 + gamma(N * d + 8))) + rounding + math.sqrt(float((off * off).sum()) / N)
    return value, root**2 * UP

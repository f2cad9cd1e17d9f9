"""Formulas that a problem may give beside Φ and E, where they are quicker than autograd.

`D1`: (w, ready) ↦ (v ↦ ∂₁Φ(w)ᵀv), for columns: w and v are of shape (d, …), what was prepared has the same axes behind
its own. They are laid out in memory like that too, so that a product with data is one product of matrices.
`D2`: (w, ready) ↦ (v ↦ ∂₂Φ(w)ᵀv), for one λ: w of shape (rows, d), v of shape (rows, vectors, d), and the result
(rows, vectors, n). A `Diagonal` says that λ has an entry for each of w, and that no two mix.
`D2Outer`: (w, ready) ↦ ∇₂E(w), for one λ: (rows, n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

D1 = Callable[[Tensor, Any], Callable[[Tensor], Tensor]]
D2 = Callable[[Tensor, Any], Callable[[Tensor], Tensor]]
D2Outer = Callable[[Tensor, Any], Tensor]


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A diagonal matrix at each of several points: v ↦ entries∘v."""

    entries: Tensor  # (rows, d)

    def __call__(self, v: Tensor) -> Tensor:
        return v * self.entries[:, None]

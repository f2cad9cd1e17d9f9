"""What every way to compute ITD curves has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class ItdMethod(Protocol):
    """(dw_t/dλ)ᵀ∇₁E(w_t) at every t, or its truncated form.

    The horizons t = 1 … T are counted from 0: the slice 0:3 stands for t = 1, 2, 3. They are taken in blocks, one after
    the other.
    """

    def prepare(self, horizons: slice) -> None:
        """Compute what the next block of horizons shares."""
        ...

    def block(self, ts: slice, lams: slice) -> Tensor:
        """The values for some t of the block and some λ, of shape (λ, t, n)."""
        ...


@dataclass(frozen=True, eq=False)
class WholeRun:
    """ITD that is known for every t, as `values` of shape (λ, T, n)."""

    values: Tensor

    def prepare(self, horizons: slice) -> None:
        """Nothing is left to compute."""

    def block(self, ts: slice, lams: slice) -> Tensor:
        return self.values[lams, ts]

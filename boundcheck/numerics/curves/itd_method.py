"""The interface of the algorithms for ITD curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class ItdMethod(Protocol):
    """An algorithm for (dw_t/dλ)ᵀ∇₁E(w_t) at every t, or for its truncated form.

    The horizons t = 1 … T are counted from 0: the slice 0:3 means t = 1, 2, 3. They are processed in blocks, in order.
    """

    def prepare(self, horizons: slice) -> None:
        """Compute the quantities that the horizons of the next block share."""
        ...

    def block(self, ts: slice, lams: slice) -> Tensor:
        """Return the values for some t of the block and some λ, of shape (λ, t, n)."""
        ...


@dataclass(frozen=True, eq=False)
class WholeRun:
    """ITD that was computed for every t, as `values` of shape (λ, T, n)."""

    values: Tensor

    def prepare(self, horizons: slice) -> None:
        """Do nothing, because all values are known."""

    def block(self, ts: slice, lams: slice) -> Tensor:
        return self.values[lams, ts]

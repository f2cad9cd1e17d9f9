"""The places of prepared values: each value of a function is a constant or has a slot in a tuple."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from torch import Tensor

from boundcheck.numerics.bilevel.quick.lam_slopes import value_of
from boundcheck.numerics.program.recognise.stage import Held, Stage, Value

Read = Callable[[Any], Tensor]
ReadFor = Callable[[Any, Tensor], Tensor]  # for columns w, with their axes at the end


class Slots:
    """The values that are prepared for each λ, in the order of the tuple that contains them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.held: list[tuple[Held, bool]] = []  # each with True if it is not differentiated by λ
        self._places: dict[tuple[int, bool], int] = {}

    def read(self, value: Value, *, fixed: bool = False) -> Read:
        """Return a function that reads the value for one λ. With `fixed`, the value is not differentiated."""
        if not isinstance(value, Held):
            return lambda ready: value
        slot = self._slot(value, fixed)
        return itemgetter(slot)

    def read_for(self, value: Value) -> ReadFor:
        """Return a function that reads the value, with the axes of columns w at the end. Prepared values have them."""
        if not isinstance(value, Held):
            return lambda ready, w: value if not value.dim() else value.view(*value.shape, *[1] * (w.dim() - 1))
        slot = self._slot(value, False)
        return lambda ready, w: ready[slot]

    def slot(self, value: Held) -> int:
        """Return the index of a value in the tuple."""
        return self._slot(value, False)

    def _slot(self, value: Held, fixed: bool) -> int:
        key = (value.place, fixed)
        if key not in self._places:
            self._places[key] = len(self.held)
            self.held.append((value_of(self._stage, value), fixed))
        return self._places[key]

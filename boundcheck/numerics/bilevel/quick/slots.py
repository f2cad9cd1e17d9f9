"""Where functions find what is prepared for a λ: every value has a slot in a tuple, or is a constant."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from torch import Tensor

from boundcheck.numerics.bilevel.quick.lam_slopes import value_of
from boundcheck.numerics.program.recognise.stage import Held, Stage, Value

Read = Callable[[Any], Tensor]
ReadFor = Callable[[Any, Tensor], Tensor]  # for columns w: with their axes behind


class Slots:
    """The values that are prepared for each λ, in the order of the tuple that holds them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.held: list[tuple[Held, bool]] = []  # with whether derivatives by λ are taken of it
        self._places: dict[tuple[int, bool], int] = {}

    def read(self, value: Value, *, fixed: bool = False) -> Read:
        """The value for one λ; `fixed` if no derivative is taken of it."""
        if not isinstance(value, Held):
            return lambda ready: value
        slot = self._slot(value, fixed)
        return itemgetter(slot)

    def read_for(self, value: Value) -> ReadFor:
        """The value with the axes of columns w behind its own; a prepared one has them already."""
        if not isinstance(value, Held):
            return lambda ready, w: value if not value.dim() else value.view(*value.shape, *[1] * (w.dim() - 1))
        slot = self._slot(value, False)
        return lambda ready, w: ready[slot]

    def slot(self, value: Held) -> int:
        """Where a value is in the tuple."""
        return self._slot(value, False)

    def _slot(self, value: Held, fixed: bool) -> int:
        key = (value.place, fixed)
        if key not in self._places:
            self._places[key] = len(self.held)
            self.held.append((value_of(self._stage, value), fixed))
        return self._places[key]

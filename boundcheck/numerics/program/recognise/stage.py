"""What is computed from λ only, once for each λ: a list of functions, and the values that the rest needs of them.

A value each of whose entries depends on one entry of λ alone, as in exp(λ), has its derivative by that entry beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise.elementary import Function


@dataclass(frozen=True, eq=False)
class Held:
    """A value of a stage: its place there, and what it was when the stage was made."""

    place: int
    example: Any
    varies: bool = True  # with λ; else with the step α only, which is held fixed
    index: Tensor | None = None  # the entry of λ that each entry depends on, if it is one; −1 if on none
    slope: Value | None = None  # the derivative of each entry by that one


Value = Tensor | Held  # a constant, or what depends on λ


class Stage:
    """Functions of λ and of the step α, in the order in which they are computed.

    α is a constant if `alpha_varies` is None; else it is known for each λ, and differentiated by it if True.
    """

    def __init__(self, lam: Tensor, alpha: Tensor, alpha_varies: bool | None) -> None:
        index = torch.arange(lam.numel(), device=lam.device).view(lam.shape)
        self.lam = Held(0, lam, index=index, slope=torch.ones_like(lam))
        self.alpha: Value = alpha if alpha_varies is None else Held(1, alpha, alpha_varies)
        self._steps: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def number(self, x: float) -> Tensor:
        """A number as a tensor like λ."""
        return torch.tensor(float(x), dtype=self.lam.example.dtype, device=self.lam.example.device)

    def compute(self, function: Callable[..., Any], *args: Any) -> Any:
        """The value of a function: a constant if all arguments are, else a place in the stage."""
        result = function(*(x.example if isinstance(x, Held) else x for x in args))
        held = [x for x in args if isinstance(x, Held)]
        if not held:
            return result
        self._steps.append((function, args))
        return Held(INPUTS + len(self._steps) - 1, result, any(x.varies for x in held))

    def add(self, x: Value, y: Value) -> Value:
        """x + y."""
        result: Value = self.compute(torch.add, x, y)
        return self._entrywise(result, (x, y), lambda x, y: self.compute(torch.add, _slope(x), _slope(y)))

    def mul(self, x: Value, y: Value) -> Value:
        """x∘y."""
        result: Value = self.compute(torch.mul, x, y)

        def by_rule(x: Value, y: Value) -> Value:
            terms = [self.compute(torch.mul, _slope(a), b) for a, b in ((x, y), (y, x)) if _varies(a)]
            slope: Value = terms[0] if len(terms) == 1 else self.compute(torch.add, *terms)
            return slope

        return self._entrywise(result, (x, y), by_rule)

    def apply(self, function: Function, x: Value) -> Value:
        """φ(x), entry by entry."""
        result: Value = self.compute(lambda x: function.all(x)[0], x)
        slope = lambda x: self.compute(lambda x, s: function.slope(x) * s, x, _slope(x))  # noqa: E731
        return self._entrywise(result, (x,), slope)

    def move(self, move: Callable[[Tensor], Tensor], x: Value) -> Value:
        """The entries of x in other places."""
        result: Value = self.compute(move, x)
        if not isinstance(x, Held) or not isinstance(result, Held) or x.index is None or x.slope is None:
            return result
        shape = x.example.shape
        slope = self.compute(lambda s: move(s.expand(shape)), x.slope)
        return Held(result.place, result.example, result.varies, move(x.index), slope)

    def _entrywise(self, result: Value, args: tuple[Value, ...], rule: Callable[..., Value]) -> Value:
        """The result with its derivative, if all arguments that vary depend on the same entries of λ."""
        varying = [x for x in args if isinstance(x, Held) and x.varies]
        if not isinstance(result, Held) or not varying or any(x.index is None for x in varying):
            return result
        shape = result.example.shape
        index: Tensor | None = None
        for x in varying:
            here = x.index.expand(shape) if x.index is not None else torch.full(shape, -1)
            if index is not None and bool(((index != here) & (index >= 0) & (here >= 0)).any()):
                return result
            index = here if index is None else torch.maximum(index, here)
        return Held(result.place, result.example, True, index, rule(*args))

    def spread(self, x: Value, shape: torch.Size, places: Tensor) -> Value:
        """The entries of x, expanded to a shape, at other places: −1 of `places` is a 0."""

        def at_places(x: Tensor) -> Tensor:
            return torch.cat((x.expand(shape).reshape(-1), x.new_zeros(1)))[places]

        result: Value = self.compute(at_places, x)
        if not isinstance(x, Held) or not isinstance(result, Held) or x.index is None or x.slope is None:
            return result
        index = torch.cat((x.index.expand(shape).reshape(-1), x.index.new_full((1,), -1)))[places]
        return Held(result.place, result.example, result.varies, index, self.compute(at_places, x.slope))

    def function(self, outputs: Sequence[Held]) -> Callable[[Tensor, Tensor], tuple[Any, ...]]:
        """The function from λ and α to some of the values; nothing else is computed."""
        needed = {held.place for held in outputs}
        for i in range(len(self._steps) - 1, -1, -1):
            if INPUTS + i in needed:
                needed.update(x.place for x in self._steps[i][1] if isinstance(x, Held))
        order = {place: new for new, place in enumerate(sorted(needed | set(range(INPUTS))))}
        steps = [
            (function, tuple((order[x.place], None) if isinstance(x, Held) else (None, x) for x in args))
            for i, (function, args) in enumerate(self._steps)
            if INPUTS + i in needed
        ]
        places = [order[held.place] for held in outputs]

        def run(lam: Tensor, alpha: Tensor) -> tuple[Any, ...]:
            values: list[Any] = [lam, alpha]
            for function, args in steps:
                values.append(function(*(x if place is None else values[place] for place, x in args)))
            return tuple(values[place] for place in places)

        return run


INPUTS = 2  # λ and α


def example(value: Value) -> Tensor:
    """What a value is at the λ for which the stage was made."""
    return value.example if isinstance(value, Held) else value


def _varies(x: Value) -> bool:
    return isinstance(x, Held) and x.varies


def _slope(x: Value) -> Value:
    """The derivative of what depends on entries of λ; 0 for what does not vary."""
    if isinstance(x, Held) and x.varies and x.slope is not None:
        return x.slope
    return torch.zeros_like(example(x))

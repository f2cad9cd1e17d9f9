"""Values that depend only on λ and are computed once for each λ, by a list of functions.

If a value is a known function of λ, such as exp(λ) or a matrix times λ, it also carries this function as an expression,
from which derivatives by λ are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise.elementary import Function

if TYPE_CHECKING:
    from boundcheck.numerics.program.recognise.algebra import Algebra
    from boundcheck.numerics.program.recognise.expression import Expression


class Unknown(Exception):  # noqa: N818
    """A program has no known formulas. The message gives the reason; the exception never reaches users."""


@dataclass(frozen=True, eq=False)
class Held:
    """A value of a stage: its place in the stage, and its value at the λ for which the stage was created."""

    place: int
    example: Any
    varies: bool = True  # whether it varies with λ; otherwise only with the step α, which is held fixed
    of_lam: Expression | None = None  # the value as a function of λ, if known


Value = Tensor | Held  # a constant, or a value that depends on λ


class Stage:
    """Functions of λ and of the step α, in the order in which they are computed.

    If `alpha_varies` is None, α is a constant. Otherwise α is computed for each λ, and if `alpha_varies` is True,
    derivatives by λ include α.
    """

    def __init__(self, lam: Tensor, alpha: Tensor, alpha_varies: bool | None) -> None:
        self.lam = Held(0, lam)
        self.alpha: Value = alpha if alpha_varies is None else Held(1, alpha, alpha_varies)
        self._steps: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.algebra: Algebra | None = None

    def follow(self, algebra: Algebra) -> None:
        """Store expressions of λ with all values computed from now on."""
        self.algebra = algebra
        self.lam = replace(self.lam, of_lam=algebra.variable())

    def number(self, x: float) -> Tensor:
        """Return a number as a tensor with the dtype and device of λ."""
        return torch.tensor(float(x), dtype=self.lam.example.dtype, device=self.lam.example.device)

    def compute(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return the value of a function: a constant if all arguments are constants, else a value of the stage."""
        result = function(*(x.example if isinstance(x, Held) else x for x in args))
        held = [x for x in args if isinstance(x, Held)]
        if not held:
            if isinstance(result, Tensor) and result.numel() > MOST_NUMBERS and result._base is None:
                raise Unknown(f"{result.numel()} numbers of data, too many for a copy")
            return result
        self._steps.append((function, args))
        return Held(INPUTS + len(self._steps) - 1, result, any(x.varies for x in held))

    def add(self, x: Value, y: Value) -> Value:
        """x + y."""
        return self.known(self.compute(torch.add, x, y), "add", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        """x∘y."""
        return self.known(self.compute(torch.mul, x, y), "mul", x, y)

    def apply(self, function: Function, x: Value) -> Value:
        """φ(x), entry by entry."""
        return self.known(self.compute(lambda x: function.all(x)[0], x), "apply", x, function)

    def move(self, move: Callable[[Tensor], Tensor], x: Value) -> Value:
        """Move the entries of x."""
        return self.known(self.compute(move, x), "move", x, move)

    def spread(self, x: Value, shape: torch.Size, places: Tensor) -> Value:
        """Expand x to a shape and take its entries at `places`; a place of −1 gives 0."""

        def at_places(x: Tensor) -> Tensor:
            return torch.cat((x.expand(shape).reshape(-1), x.new_zeros(1)))[places]

        factor = (places >= 0).to(example(x))
        result: Value = self.compute(at_places, x)
        if not isinstance(x, Held) or not isinstance(result, Held) or x.of_lam is None:
            return result
        inside = self.move(lambda x: x.expand(shape).reshape(-1)[places.clamp(min=0)], x)
        return replace(result, of_lam=self.mul(inside, factor).of_lam)  # type: ignore[union-attr]

    def known(self, result: Value, name: str, *args: Any) -> Value:
        """Return the result of an operation with its expression, if all arguments that vary have an expression."""
        if not isinstance(result, Held) or not result.varies or self.algebra is None:
            return result
        if any(isinstance(x, Held) and x.varies and x.of_lam is None for x in args):
            return result
        nodes = [x.of_lam if isinstance(x, Held) and x.varies else x for x in args]
        try:
            node = self.algebra.by_name(name, *nodes)
        except Unknown:
            return result
        return replace(result, of_lam=node) if is_expression_of(node, result) else result

    def function(self, outputs: Sequence[Held]) -> Callable[[Tensor, Tensor], tuple[Any, ...]]:
        """Return the function from λ and α to some values of the stage. It computes only what these values need."""
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


INPUTS = 2  # number of inputs: λ and α
MOST_NUMBERS = 20_000_000  # largest number of entries of a computed constant


def is_expression_of(node: object, held: Held) -> bool:
    """Return True if `node` is an expression of the shape of a value, without a sum."""
    shape = getattr(node, "inner", None)
    return shape is not None and getattr(node, "summed", None) is None and shape == held.example.shape


def example(value: Value) -> Tensor:
    """Return a value at the λ for which the stage was created."""
    return value.example if isinstance(value, Held) else value

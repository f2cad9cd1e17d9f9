"""One operation as the rules of `row_rules.py` and `row_moves.py` read it: arguments, and kinds of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Size, Tensor

from boundcheck.numerics.program.recorded_program import Declined, Operation, Ref
from boundcheck.numerics.program.row_kinds import Sized, of_numbers

Values = Callable[[Ref], Tensor]


@dataclass(frozen=True, eq=False)
class RowOperation:
    """One operation at every n, with the kinds of the values that it reads."""

    operations: tuple[Operation, ...]
    kinds: Callable[[Ref], Sized]
    counts: tuple[int, ...]
    of_data: Values  # the numbers of a value that depends on the data only, for all examples
    _asked: set[str] = field(default_factory=set, init=False)  # the arguments that the rule has looked at

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.operations[0].name

    def raw(self, name: str) -> tuple[Any, ...]:
        """An argument by its name, at every n; its default where it is not given."""
        self._asked.add(name)
        return tuple(self._raw(operation, name) for operation in self.operations)

    @staticmethod
    def _raw(operation: Operation, name: str) -> Any:
        for place, argument in enumerate(operation.func._schema.arguments):
            if argument.name == name:
                if place < len(operation.args):
                    return operation.args[place]
                return operation.kwargs.get(name, argument.default_value)
        return None

    def plain(self, name: str) -> Any:
        """An argument that has to be the same at every n."""
        values = self.raw(name)
        if any(value != values[0] for value in values):
            raise Declined(f"its {name} changes with the number of examples")
        return values[0]

    def sized(self, values: Sequence[Any]) -> Sized:
        """The kind of a value that the operation reads, given as it is at every n."""
        if isinstance(values[0], Ref):
            return self.kinds(values[0])
        return of_numbers(values, self.counts)

    def value(self, name: str) -> Sized:
        """The kind of an argument."""
        return self.sized(self.raw(name))

    def maybe(self, name: str) -> Sized | None:
        """The same, None where the argument is None."""
        return None if self.raw(name)[0] is None else self.value(name)

    def listed(self, name: str) -> list[Sized | None]:
        """The kinds in a list of tensors, some of which may be None."""
        return [None if x[0] is None else self.sized(x) for x in zip(*self.raw(name), strict=True)]

    def read(self) -> list[Sized]:
        """The kinds of all tensors that it reads; whatever else it is given has to be the same at every n."""
        every = []
        for argument in self.operations[0].func._schema.arguments:
            values = self.raw(argument.name)
            first = values[0]
            if isinstance(first, list | tuple) and any(isinstance(x, Ref | Tensor) for x in first):
                every += [x for x in self.listed(argument.name) if x is not None]
            elif isinstance(first, Ref | Tensor):
                every.append(self.sized(values))
            else:
                self.plain(argument.name)
        return every

    def refuse_unread(self) -> None:
        """Declined if the rule has not looked at a tensor that the operation reads."""
        for argument in self.operations[0].func._schema.arguments:
            value = self._raw(self.operations[0], argument.name)
            parts = value if isinstance(value, list | tuple) else (value,)
            if argument.name not in self._asked and any(isinstance(x, Ref | Tensor) for x in parts):
                raise Declined(f"its {argument.name} has no rule")

    @property
    def shapes(self) -> tuple[Size, ...]:
        """The shapes of its first result."""
        return tuple(operation.shapes[0] for operation in self.operations)

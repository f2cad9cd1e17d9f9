"""The view of one operation for the rules in `row_rules.py` and `row_moves.py`: arguments, and kinds of values."""

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
    """One operation, recorded for every number n of examples, with the kinds of the values that it reads."""

    operations: tuple[Operation, ...]
    kinds: Callable[[Ref], Sized]
    counts: tuple[int, ...]
    of_data: Values  # returns the numbers of a value that depends only on the data, for all examples
    _read_names: set[str] = field(default_factory=set, init=False)  # names of the arguments that the rule has read

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.operations[0].name

    def raw(self, name: str) -> tuple[Any, ...]:
        """Return an argument by name, for every n; its default value if it is not given."""
        self._read_names.add(name)
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
        """Return an argument that must be the same for every n."""
        values = self.raw(name)
        if any(value != values[0] for value in values):
            raise Declined(f"its {name} changes with the number of examples")
        return values[0]

    def sized(self, values: Sequence[Any]) -> Sized:
        """Return the kind of a value that the operation reads. `values` holds it for every n."""
        if isinstance(values[0], Ref):
            return self.kinds(values[0])
        return of_numbers(values, self.counts)

    def value(self, name: str) -> Sized:
        """Return the kind of an argument."""
        return self.sized(self.raw(name))

    def maybe(self, name: str) -> Sized | None:
        """Return the kind of an argument; None if the argument is None."""
        return None if self.raw(name)[0] is None else self.value(name)

    def listed(self, name: str) -> list[Sized | None]:
        """Return the kinds of an argument that is a list of tensors, some of which may be None."""
        return [None if x[0] is None else self.sized(x) for x in zip(*self.raw(name), strict=True)]

    def read(self) -> list[Sized]:
        """Return the kinds of all tensors that the operation reads; other arguments must be the same for every n."""
        kinds = []
        for argument in self.operations[0].func._schema.arguments:
            values = self.raw(argument.name)
            first = values[0]
            if isinstance(first, list | tuple) and any(isinstance(x, Ref | Tensor) for x in first):
                kinds += [x for x in self.listed(argument.name) if x is not None]
            elif isinstance(first, Ref | Tensor):
                kinds.append(self.sized(values))
            else:
                self.plain(argument.name)
        return kinds

    def refuse_unread(self) -> None:
        """Raise `Declined` if the operation reads a tensor that the rule has not looked at."""
        for argument in self.operations[0].func._schema.arguments:
            value = self._raw(self.operations[0], argument.name)
            parts = value if isinstance(value, list | tuple) else (value,)
            if argument.name not in self._read_names and any(isinstance(x, Ref | Tensor) for x in parts):
                raise Declined(f"its {argument.name} has no rule")

    @property
    def shapes(self) -> tuple[Size, ...]:
        """The shape of the first result, for every n."""
        return tuple(operation.shapes[0] for operation in self.operations)

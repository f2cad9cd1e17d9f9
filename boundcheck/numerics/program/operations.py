"""What PyTorch says of an operation: its names, what it writes into, whether it only looks at memory; asked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch


@dataclass(frozen=True)
class Facts:
    """Of one operation, as in `aten.add_.Tensor`."""

    name: str  # add_
    full: str  # aten.add_.Tensor
    is_aten: bool
    is_random: bool
    is_mutable: bool
    chooses: bool  # does a number leave PyTorch, or the shape of a result depend on numbers?
    is_view: bool  # do the results look at the memory of arguments, without a write?
    is_rebinding: bool  # squeeze_(), t_() and the like: in place, but only the shape changes
    written: tuple[tuple[int, str], ...]  # arguments that it writes into, by place and by name


@lru_cache(maxsize=4096)
def facts(func: Any) -> Facts:
    """The facts of an operation as a dispatch mode gets it."""
    schema = func._schema
    infos = [result.alias_info for result in schema.returns]
    return Facts(
        schema.name.removeprefix("aten::"),
        str(func),
        func.namespace == "aten",
        torch.Tag.nondeterministic_seeded in func.tags,
        schema.is_mutable,
        not {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}.isdisjoint(func.tags),
        any(info is not None and not info.is_write for info in infos),
        torch.Tag.inplace_view in func.tags,
        tuple(
            (i, argument.name)
            for i, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ),
    )


def leaves(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """All arguments one by one; an operation takes lists of tensors or numbers, and none that are deeper."""
    every: list[Any] = []
    for x in (*args, *kwargs.values()):
        if isinstance(x, list | tuple):
            every.extend(x)
        else:
            every.append(x)
    return every


def changed(function: Callable[[Any], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """The arguments, each replaced by what `function` returns for it."""

    def each(x: Any) -> Any:
        return type(x)([function(y) for y in x]) if isinstance(x, list | tuple) else function(x)

    return tuple([each(x) for x in args]), {name: each(x) for name, x in kwargs.items()} if kwargs else {}

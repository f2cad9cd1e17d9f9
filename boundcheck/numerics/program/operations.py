"""Properties of an operation from its PyTorch schema: names, arguments that it writes into, views. They are cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch


@dataclass(frozen=True)
class Facts:
    """Properties of one operation, such as `aten.add_.Tensor`."""

    name: str  # such as add_
    full: str  # such as aten.add_.Tensor
    is_aten: bool
    is_random: bool
    is_mutable: bool
    chooses: bool  # whether a number leaves PyTorch, or the shape of a result depends on numbers
    is_view: bool  # whether a result is a view of the memory of an argument, which the operation does not write into
    is_rebinding: bool  # in place, but only the shape changes, as in squeeze_() and t_()
    written: tuple[tuple[int, str], ...]  # position and name of the arguments that it writes into


@lru_cache(maxsize=4096)
def facts(func: Any) -> Facts:
    """Return the properties of an operation as a dispatch mode receives it."""
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
    """Return all arguments with lists flattened. Lists of an operation contain tensors or numbers, no further lists."""
    flat: list[Any] = []
    for x in (*args, *kwargs.values()):
        if isinstance(x, list | tuple):
            flat.extend(x)
        else:
            flat.append(x)
    return flat


def changed(function: Callable[[Any], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the arguments with `function` applied to each of them, and to each entry of a list."""

    def each(x: Any) -> Any:
        return type(x)([function(y) for y in x]) if isinstance(x, list | tuple) else function(x)

    return tuple([each(x) for x in args]), {name: each(x) for name, x in kwargs.items()} if kwargs else {}

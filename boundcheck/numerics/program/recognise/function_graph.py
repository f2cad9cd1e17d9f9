"""Recorded operations as one Python function, which `torch.fx` writes: nothing is looked up while it runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import getitem
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from boundcheck.numerics.program.recognise.interpreter import replayed
from boundcheck.numerics.program.recognise.stage import Held
from boundcheck.numerics.program.recorded_program import Operation, Ref

SAME_NUMBERS = frozenset(
    ("alias", "clone", "contiguous", "lift_fresh")
)  # the same numbers, as nothing is written in place
VIEWS = frozenset(("view", "_unsafe_view", "reshape", "expand"))
# functions of torch that do what the operation does, with the same arguments, and start sooner
SOONER = {
    name: getattr(torch, name)
    for name in (
        "mm", "mv", "dot", "bmm", "add", "sub", "mul", "div", "neg", "exp", "log", "tanh", "sigmoid", "sum", "mean",
        "pow", "t", "permute", "transpose", "unsqueeze", "squeeze", "select", "addmm", "addmv", "relu", "convolution",
        "reshape", "cat",
    )
}  # fmt: skip


class FunctionGraph:
    """A function that is made of operations. Its inputs are named by what stands for them in the operations."""

    def __init__(self, inputs: Sequence[Hashable], shapes: dict[Ref, torch.Size]) -> None:
        self._graph = fx.Graph()
        self._values: dict[Hashable, Any] = {x: self._graph.placeholder(f"input_{i}") for i, x in enumerate(inputs)}
        self._shapes = dict(shapes)
        self._constants: list[Tensor] = []
        self._of_constant: dict[int, fx.Node] = {}

    def take_from(self, source: Hashable, places: dict[Hashable, int]) -> None:
        """Values that are entries of an input that is a tuple."""
        for name, place in places.items():
            self._values[name] = self._graph.call_function(getitem, (self._values[source], place))

    def add(self, node: int, operation: Operation) -> None:
        """An operation; its results are `Ref(node, 0)`, `Ref(node, 1)`, …"""
        args, kwargs = tree_map(
            self._value, (operation.args, operation.kwargs), is_leaf=lambda x: isinstance(x, Ref | Held)
        )
        for item, (result, shape) in enumerate(zip(self._call(operation, args, kwargs), operation.shapes, strict=True)):
            self._values[Ref(node, item)], self._shapes[Ref(node, item)] = result, shape

    def _value(self, x: Any) -> Any:
        if isinstance(x, Ref):
            return self._values[x]
        if isinstance(x, Held):
            return self._values[x.place]
        if not isinstance(x, Tensor):
            return x
        if id(x) not in self._of_constant:
            with self._graph.inserting_before(next(iter(self._graph.nodes), None)):
                self._of_constant[id(x)] = self._graph.placeholder(f"constant_{len(self._constants)}")
            self._constants.append(x)
        return self._of_constant[id(x)]

    def _call(self, operation: Operation, args: Any, kwargs: Any) -> tuple[Any, ...]:
        first = operation.args[0] if operation.args else None
        if isinstance(first, Ref):
            unmoved = operation.name in VIEWS and operation.shapes[0] == self._shapes.get(first)
            if operation.name in SAME_NUMBERS or unmoved:
                return (args[0],)
        function = SOONER.get(operation.name)
        if function is None or operation.func is None or operation.func.namespace != "aten":
            function = replayed(operation)
        result = self._graph.call_function(function, tuple(args), dict(kwargs))
        if len(operation.shapes) == 1 and not _gives_several(operation):
            return (result,)
        return tuple(self._graph.call_function(getitem, (result, i)) for i in range(len(operation.shapes)))

    def function(self, output: Any) -> Callable[..., Any]:
        """The function from the inputs, in their order, to a value, or to a tuple of values."""
        result = tuple(self._value(x) for x in output) if isinstance(output, tuple) else self._value(output)
        self._graph.output(result)
        self._graph.eliminate_dead_code()
        forward = fx.GraphModule(torch.nn.Module(), self._graph).forward
        return partial(forward, *reversed(self._constants))  # each was put before the others


def _gives_several(operation: Operation) -> bool:
    """Is the result a list or a tuple, if only of one tensor?"""
    if operation.func is None:
        return False
    returns = operation.func._schema.returns
    return len(returns) > 1 or "List" in str(returns[0].type)

"""A recorded program in two parts: what depends on λ only, which a stage computes, and the operations that see w."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from boundcheck.numerics.program.capture import Program, Ref
from boundcheck.numerics.program.recognise.interpreter import on_stage, replayed
from boundcheck.numerics.program.recognise.stage import Held, Stage

Read = Callable[[Any], Any]  # from what is prepared for a λ to one of its values


class StagedProgram:
    """The operations of a program that depend on w, in the order in which they ran."""

    def __init__(self, program: Program, stage: Stage) -> None:
        results: list[Any] = [None, (stage.lam,)]  # None for what depends on w
        self.needs: dict[int, Held] = {}  # by place
        self._operations: list[tuple[Callable[..., Any], list[Any], Any]] = []
        self._nodes = [0]
        for node, operation in enumerate(program.operations[2:], start=2):
            leaves, spec = tree_flatten((operation.args, operation.kwargs), is_leaf=lambda x: isinstance(x, Ref))
            if not any(isinstance(x, Ref) and results[x.node] is None for x in leaves):
                args, kwargs = tree_unflatten([_value(results, x) for x in leaves], spec)
                results.append(on_stage(stage, operation, args, kwargs))
                continue
            results.append(None)
            leaves = [x if isinstance(x, Ref) and results[x.node] is None else _value(results, x) for x in leaves]
            self.needs.update({x.place: x for x in leaves if isinstance(x, Held)})
            simple = not operation.kwargs and not any(isinstance(x, tuple | list | dict) for x in operation.args)
            self._operations.append((replayed(operation), leaves, None if simple else spec))
            self._nodes.append(node)
        self.output = program.output
        self.depends_on_w = results[program.output.node] is None
        if not self.depends_on_w:
            held = _value(results, program.output)
            self.needs.update({held.place: held} if isinstance(held, Held) else {})
            self._constant = held

    def function(self, read: Callable[[Held], Read]) -> Callable[[Tensor, Any], Tensor]:
        """The function of w and of what is prepared; `read` says where a value is in it."""
        if not self.depends_on_w:
            constant = self._constant
            return (lambda w, ready: read(constant)(ready)) if isinstance(constant, Held) else lambda w, ready: constant
        places = {node: i for i, node in enumerate(self._nodes)}
        steps = [
            (function, tuple(_source(x, places, read) for x in leaves), spec)
            for function, leaves, spec in self._operations
        ]
        last, item = places[self.output.node], self.output.item

        def run(w: Tensor, ready: Any) -> Tensor:
            values: list[Any] = [(w,)]
            for function, sources, spec in steps:
                leaves = [source(values, ready) for source in sources]
                if spec is None:
                    result = function(*leaves)
                else:
                    args, kwargs = tree_unflatten(leaves, spec)
                    result = function(*args, **kwargs)
                values.append(result if isinstance(result, tuple | list) else (result,))
            value: Tensor = values[last][item]
            return value

        return run


def _value(results: list[Any], x: Any) -> Any:
    return results[x.node][x.item] if isinstance(x, Ref) else x


def _source(x: Any, places: dict[int, int], read: Callable[[Held], Read]) -> Callable[[list[Any], Any], Any]:
    if isinstance(x, Ref):
        place, item = places[x.node], x.item
        return lambda values, ready: values[place][item]
    if isinstance(x, Held):
        of_ready = read(x)
        return lambda values, ready: of_ready(ready)
    return lambda values, ready: x

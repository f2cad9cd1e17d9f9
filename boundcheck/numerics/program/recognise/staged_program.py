"""A recorded program in two parts: a stage computes the values that depend only on λ; the rest depends on w."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from boundcheck.numerics.program.recognise.function_graph import FunctionGraph
from boundcheck.numerics.program.recognise.interpreter import on_stage
from boundcheck.numerics.program.recognise.stage import Held, Stage
from boundcheck.numerics.program.recorded_program import Operation, Program, Ref, W

READY = "ready"


class StagedProgram:
    """The operations of a program that depend on w, in the order in which they ran."""

    def __init__(self, program: Program, stage: Stage) -> None:
        results: list[Any] = [None, (stage.lam,)]  # None for results that depend on w
        self._operations: dict[int, Operation] = {}  # arguments that do not depend on w are values of the stage
        for node, operation in enumerate(program.operations[2:], start=2):
            leaves, spec = tree_flatten((operation.args, operation.kwargs), is_leaf=lambda x: isinstance(x, Ref))
            with_w = [isinstance(x, Ref) and results[x.node] is None for x in leaves]
            leaves = [x if depends else _value(results, x) for x, depends in zip(leaves, with_w, strict=True)]
            args, kwargs = tree_unflatten(leaves, spec)
            if not any(with_w):
                results.append(on_stage(stage, operation, args, kwargs))
                continue
            results.append(None)
            self._operations[node] = replace(operation, args=args, kwargs=kwargs)
        self._shape_of_w = program.operations[0].shapes[0]
        depends = results[program.output.node] is None
        self._output = program.output if depends else _value(results, program.output)

    def function(self, slot: Callable[[Held], int]) -> Callable[[Tensor, Any], Tensor]:
        """Return the program as a function of w and of a tuple of stage values. `slot` gives a value's index there."""
        values = tree_flatten([(o.args, o.kwargs) for o in self._operations.values()] + [self._output])[0]
        held = {x.place: x for x in values if isinstance(x, Held)}
        graph = FunctionGraph((W, READY), {W: self._shape_of_w})
        graph.take_from(READY, {place: slot(x) for place, x in held.items()})
        for node, operation in self._operations.items():
            graph.add(node, operation)
        return graph.function(self._output)


def _value(results: list[Any], x: Any) -> Any:
    return results[x.node][x.item] if isinstance(x, Ref) else x

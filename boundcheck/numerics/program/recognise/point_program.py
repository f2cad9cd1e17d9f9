"""Products ∂₁Φᵀv from the operations that autograd runs for them, recorded once.

Operations that do not depend on v run once for each point, the others for every v. So products build no autograd graph
and do not start the autograd engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.recognise.function_graph import FunctionGraph
from boundcheck.numerics.program.recognise.stage import Unknown
from boundcheck.numerics.program.recorded_program import Program, Ref

Product = Callable[[Tensor], Tensor]
Map = Callable[[Tensor, tuple[Any, ...]], Tensor]  # a map of w and of a tuple of tensors


class PointProgram:
    """(w, ready) ↦ (v ↦ ∂₁Φ(w)ᵀv) for a map of w and of a tuple of tensors, recorded at one point."""

    def __init__(self, phi_at: Map, w: Tensor, ready: Sequence[Tensor]) -> None:
        program = _capture(phi_at, w, ready)
        self._v: Ref | None = None
        self._inputs: dict[Ref, int] = {}  # the position of each input in (w, *ready)
        shapes = [w.shape, *(x.shape for x in ready)]
        splits = {}
        for node, operation in enumerate(program.operations):
            if operation.name == "split_with_sizes" and operation.args[0] in (BOTH, FLAT):
                splits[node] = operation.args[0]
        for node, source in splits.items():
            if source == BOTH:
                self._v = Ref(node, 1)
                self._inputs[Ref(node, 0)] = 0
            else:
                self._inputs |= {Ref(node, i): 1 + i for i in range(len(ready))}
        input_shapes = {ref: shapes[place] for ref, place in self._inputs.items()}
        if self._v is None:
            raise Unknown("a product that does not depend on v")
        self._make(program, self._v, frozenset(splits), input_shapes)

    def _make(self, program: Program, v: Ref, splits: frozenset[int], input_shapes: dict[Ref, torch.Size]) -> None:
        """Make two functions: from (w, *ready) to values saved for a point, and from these and v to the product."""
        depends_on_v = set()
        for node, operation in enumerate(program.operations):
            if node not in splits and any(ref == v or ref.node in depends_on_v for ref in operation.refs()):
                depends_on_v.add(node)
        if program.output.node not in depends_on_v:
            raise Unknown("a product that does not depend on v")
        at_point = FunctionGraph(tuple(self._inputs), input_shapes)
        for node, operation in enumerate(program.operations):
            if node > 1 and node not in splits and node not in depends_on_v:
                at_point.add(node, operation)
        used = {ref for node in depends_on_v for ref in program.operations[node].refs()}
        saved = sorted((x for x in used if x != v and x.node not in depends_on_v), key=lambda ref: (ref.node, ref.item))
        shapes = {ref: input_shapes.get(ref, program.operations[ref.node].shapes[ref.item]) for ref in saved}
        product = FunctionGraph((*saved, v), shapes | {v: program.operations[v.node].shapes[1]})
        for node in sorted(depends_on_v):
            product.add(node, program.operations[node])
        self._at_point, self._product = at_point.function(tuple(saved)), product.function(program.output)

    def __call__(self, w: Tensor, ready: Sequence[Tensor]) -> Product:
        saved = self._at_point(*[ready[place - 1] if place else w for place in self._inputs.values()])
        return partial(self._product, *saved)


BOTH, FLAT = Ref(0), Ref(1)  # the inputs of the recorded function: (w, v), and `ready` as one vector


def _capture(phi_at: Map, w: Tensor, ready: Sequence[Tensor]) -> Program:
    d, sizes = w.numel(), [*(x.numel() for x in ready), 1]  # one more number, so that no piece is the whole vector

    def product(both: Tensor, flat: Tensor) -> Tensor:
        x, v = torch.split(both, [d, d])
        prepared = tuple(piece.view(like.shape) for piece, like in zip(torch.split(flat, sizes), ready, strict=False))
        x = x.requires_grad_()
        result: Tensor = torch.autograd.grad(phi_at(x, prepared), x, v, create_graph=True)[0]
        return result

    flat = torch.cat([x.reshape(-1) for x in (*ready, w.new_zeros(1))])
    return capture(product, torch.cat((w, torch.ones_like(w))), flat, {})

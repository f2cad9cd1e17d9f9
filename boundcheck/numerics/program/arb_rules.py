"""Rules of operations for balls of 128 bits: entries of `FUNCTIONS`, or methods named after the operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from boundcheck.numerics.program.arb_arrays import Jet, Node, Tape, array
from boundcheck.numerics.program.arb_functions import FUNCTIONS, clamp, power
from boundcheck.numerics.program.arb_numbers import balls, exact, filled
from boundcheck.numerics.program.enclosure.linear_rules import MOVES, SEVERAL
from boundcheck.numerics.program.recorded_program import CUT, Declined, Operation

OF_MEMORY = frozenset(("dtype", "memory_format", "layout", "device", "pin_memory", "non_blocking"))


class ArbRules:
    """Applies the rule of each operation and records the result on a tape."""

    def __init__(self, tape: Tape, dtypes: set[torch.dtype]) -> None:
        self.tape, self.dtypes = tape, dtypes

    def run(self, operation: Operation, args: Any, kwargs: Any) -> list[Node]:
        place = f", {operation.line}" if operation.line else ""
        name = operation.name
        if kwargs.get("dtype") not in {None, *self.dtypes}:
            raise Declined(f"aten.{name} to {kwargs['dtype']}, which is not the identity{place}")
        kwargs = {k: v for k, v in kwargs.items() if k not in OF_MEMORY}  # the rule must accept all others
        try:
            if name in MOVES:
                return self._moved(operation, args)
            rule = getattr(self, f"_{name}", None)
            if name in FUNCTIONS:
                return [self._function(name, *args, **kwargs)]
            if name == CUT or rule is None:
                raise Declined(f"aten.{name} has no rule for balls")
            result = rule(*args, **kwargs)
        except Declined as declined:
            raise Declined(f"{declined}{place}") from declined
        except (TypeError, ValueError, IndexError, RuntimeError, AttributeError, ArithmeticError, KeyError) as error:
            text = " ".join(str(error).split())[:120]
            raise Declined(f"aten.{name}: the rule for balls does not take these arguments ({text}){place}") from error
        nodes = result if isinstance(result, list) else [result]
        for node, shape in zip(nodes, operation.shapes, strict=False):
            if node.shape != tuple(shape):
                raise Declined(f"aten.{name}: the rule for balls gives the shape {node.shape}{place}")
        return nodes

    def _function(self, name: str, x: Any) -> Node:
        return self.tape.apply(self._node(x), FUNCTIONS[name])

    def _node(self, x: Any) -> Node:
        if isinstance(x, Node):
            return x
        if isinstance(x, bool | int | float):
            return Node(Jet(array(exact(float(x) if isinstance(x, float) else int(x)))))
        if isinstance(x, Tensor) and not x.is_complex():
            return Node(Jet(balls(x)))
        raise Declined(f"an argument of type {type(x).__name__}")

    def _moved(self, operation: Operation, args: Any) -> list[Node]:
        """Run an operation that moves numbers on their positions. Position 0 stands for an inserted zero."""
        name = operation.name
        if name in ("_to_copy", "clone", "alias", "contiguous", "lift_fresh"):
            return [self._node(args[0])]
        sources: list[Node] = []
        start = 1

        def place(x: Any) -> Any:
            nonlocal start
            if not (isinstance(x, Node) or (isinstance(x, Tensor) and x.is_floating_point())):
                return x
            node = self._node(x)
            sources.append(node)
            numbers = torch.arange(start, start + math.prod(node.shape)).reshape(node.shape)
            start += math.prod(node.shape)
            return numbers

        if name in ("where", "cat", "stack"):  # integers among the values count as numbers
            first = 1 if name == "where" else 0
            last = first + 2 if name == "where" else 1
            values = tree_map(_as_tensor if name == "where" else _as_float, args[first:last], is_leaf=_is_node)
            args = (*args[:first], *values, *args[last:])
            if any(isinstance(x, Node) for x in args[:first]):
                raise Declined("aten.where with a condition that is computed")
        leaves, spec = tree_flatten(args, is_leaf=_is_node)
        places = tree_unflatten([place(x) for x in leaves], spec)
        if name in ("view", "_unsafe_view", "_reshape_alias", "reshape"):
            result: Any = places[0].reshape(places[1])
        else:
            result = operation.func(*places, **operation.kwargs)
        results = list(result) if name in SEVERAL else [result]
        return [self._gathered(sources, x.numpy()) for x in results]

    def _gathered(self, nodes: list[Node], places: Any) -> Node:
        """Record the numbers at some positions in the concatenation of a zero and all nodes."""
        zero, start, parents = np.array([exact(0)], dtype=object), 1, []
        has_tangent = any(node.jet.tangent is not None for node in nodes)
        pool = np.concatenate([zero, *(node.jet.value.reshape(-1) for node in nodes)])
        tangents = None
        if has_tangent:
            parts = [
                node.jet.tangent if node.jet.tangent is not None else filled(node.jet.value, 0.0) for node in nodes
            ]
            tangents = np.concatenate([zero, *(part.reshape(-1) for part in parts)])
        for node in nodes:
            size = math.prod(node.shape)
            parents.append((node, _scattered(places, start, size, node.shape)))
            start += size
        jet = Jet(array(pool[places]), None if tangents is None else array(tangents[places]))
        return self.tape.put(jet, *parents)

    def _neg(self, x: Any) -> Node:
        return self.tape.linear(self._node(x), lambda t: -t, lambda t: -t)

    def _add(self, x: Any, y: Any, alpha: float = 1) -> Node:
        x, y = self._node(x), self._node(y)
        return self.tape.add(x, y if alpha == 1 else self._mul(y, alpha))

    def _sub(self, x: Any, y: Any, alpha: float = 1) -> Node:
        return self._add(x, y, -alpha)

    def _rsub(self, x: Any, y: Any, alpha: float = 1) -> Node:
        return self._add(y, x, -alpha)

    def _mul(self, x: Any, y: Any) -> Node:
        return self.tape.mul(self._node(x), self._node(y))

    def _div(self, x: Any, y: Any) -> Node:
        return self._mul(x, self.tape.apply(self._node(y), FUNCTIONS["reciprocal"]))

    def _sum(self, x: Any, dim: Any = None, keepdim: bool = False) -> Node:
        x = self._node(x)
        dims = range(len(x.shape)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
        axes = tuple(sorted(d % max(1, len(x.shape)) for d in dims)) if x.shape else ()
        reduced_shape = tuple(1 if i in axes else size for i, size in enumerate(x.shape))

        def back(t: Any) -> Any:
            return np.broadcast_to(t.reshape(reduced_shape), x.shape)

        return self.tape.linear(x, lambda t: array(t.sum(axis=axes, keepdims=keepdim)) if axes else t, back)

    def _mean(self, x: Any, dim: Any = None, keepdim: bool = False) -> Node:
        x = self._node(x)
        total = self._sum(x, dim, keepdim)
        return self._div(total, math.prod(x.shape) // max(1, math.prod(total.shape)))

    def _matmul(self, x: Any, y: Any) -> Node:
        x, y = self._node(x), self._node(y)
        row, column = len(x.shape) == 1, len(y.shape) == 1
        if row:
            x = self.tape.linear(x, lambda t: t[None], lambda t: t[0])
        if column:
            y = self.tape.linear(y, lambda t: t[:, None], lambda t: t[:, 0])
        z = self.tape.matmul(x, y)
        if column:
            z = self.tape.linear(z, lambda t: t[..., 0], lambda t: t[..., None])
        if row:
            place = (..., 0) if column else (..., 0, slice(None))
            z = self.tape.linear(z, lambda t: t[place], lambda t: t[..., None] if column else t[..., None, :])
        return z

    _mm = _bmm = _mv = _matmul

    def _outer(self, x: Any, y: Any) -> Node:
        column = self.tape.linear(self._node(x), lambda t: t[:, None], lambda t: t[:, 0])
        return self._mul(column, y)

    def _dot(self, x: Any, y: Any) -> Node:
        return self._sum(self._mul(x, y))

    _vdot = _dot

    def _pow(self, x: Any, exponent: Any) -> Node:
        if not isinstance(exponent, int | float) or not isinstance(x, Node | Tensor):
            raise Declined("aten.pow with these arguments")
        x = self._node(x)
        if not x.depends and exponent == int(exponent) and exponent >= 0:  # data need no derivatives
            return self.tape.put(Jet(array(x.jet.value ** int(exponent))))
        return self.tape.apply(x, power(exponent))

    def _clamp(self, x: Any, min: Any = None, max: Any = None) -> Node:
        for end in (min, max):
            if end is not None and not isinstance(end, int | float):
                raise Declined("clamp between tensors")
        if min is not None and max is not None and not min <= max:
            raise Declined(f"clamp between {min} and {max}")
        return self.tape.apply(self._node(x), clamp(min, max))

    def _clamp_min(self, x: Any, min: Any) -> Node:
        return self._clamp(x, min)

    def _clamp_max(self, x: Any, max: Any) -> Node:
        return self._clamp(x, None, max)

    def _logsumexp(self, x: Any, dim: Any, keepdim: bool = False) -> Node:
        return self._log(self._sum(self._exp(x), dim, keepdim))

    def _exp(self, x: Any) -> Node:
        return self.tape.apply(self._node(x), FUNCTIONS["exp"])

    def _log(self, x: Any) -> Node:
        return self.tape.apply(self._node(x), FUNCTIONS["log"])

    def _softplus(self, x: Any, beta: float = 1, threshold: float = 20) -> Node:
        x = self._mul(x, beta)
        if not all(ball < threshold for ball in x.jet.value.reshape(-1)):
            raise Declined("softplus beyond its threshold")
        return self._div(self.tape.apply(self._exp(x), FUNCTIONS["log1p"]), beta)

    def _log_sigmoid(self, x: Any) -> Node:
        return self._neg(self.tape.apply(self._exp(self._neg(self._node(x))), FUNCTIONS["log1p"]))

    def _log_sigmoid_forward(self, x: Any) -> list[Node]:
        return [self._log_sigmoid(x)]  # PyTorch's second result is an internal buffer


def _as_float(x: Any) -> Any:
    return x.double() if isinstance(x, Tensor) else x


def _as_tensor(x: Any) -> Any:
    return x if isinstance(x, Node) else torch.as_tensor(x, dtype=torch.float64)


def _is_node(x: Any) -> bool:
    return isinstance(x, Node)


def _scattered(places: Any, start: int, size: int, shape: tuple[int, ...]) -> Callable[[Jet], Jet]:
    """Return the transpose of `_gathered` for one of its nodes."""
    flat = places.reshape(-1)
    inside = (flat >= start) & (flat < start + size)
    targets = flat[inside] - start

    def back(t: Any) -> Any:
        result = np.empty(size, dtype=object)
        result[:] = [exact(0)] * size
        np.add.at(result, targets, np.broadcast_to(t, places.shape).reshape(-1)[inside])
        return result.reshape(shape)

    return lambda a: a.map(back)

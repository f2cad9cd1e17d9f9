"""Arrays of arb balls with tangents, and derivatives in reverse mode.

A ball contains the exact number. python-flint computes with balls at `BITS` bits, including elementary functions. An
array is a numpy array of balls. It may carry its derivative in one direction; the reverse pass then also gives
products with second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BITS = 128
Array = Any  # a numpy array of balls


def array(x: Any) -> Array:
    """Return x as an array, even if it is a single ball, which numpy returns for an array without axes."""
    return x if isinstance(x, np.ndarray) else np.array(x, dtype=object)


@dataclass(frozen=True, eq=False)
class Jet:
    """Numbers and their derivatives in one direction. A tangent of None means that the derivatives are 0."""

    value: Array
    tangent: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.value.shape
        return shape

    def map(self, f: Callable[[Array], Array]) -> Jet:
        """Apply a linear function f."""
        return Jet(array(f(self.value)), None if self.tangent is None else array(f(self.tangent)))

    def __add__(self, other: Jet) -> Jet:
        both = [x for x in (self.tangent, other.tangent) if x is not None]
        tangent = None if not both else both[0] if len(both) == 1 else array(both[0] + both[1])
        value = array(self.value + other.value)
        return Jet(value, None if tangent is None else _filled(tangent, value.shape))

    def __neg__(self) -> Jet:
        return self.map(lambda x: -x)

    def __mul__(self, other: Jet) -> Jet:
        return self.paired(other, lambda x, y: x * y)

    def paired(self, other: Jet, product: Callable[[Array, Array], Array]) -> Jet:
        """Apply a product that is linear in both factors."""
        value, tangent = array(product(self.value, other.value)), None
        if self.tangent is not None:
            tangent = array(product(self.tangent, other.value))
        if other.tangent is not None:
            second = array(product(self.value, other.tangent))
            tangent = second if tangent is None else array(tangent + second)
        return Jet(value, tangent)


def _filled(x: Array, shape: tuple[int, ...]) -> Array:
    return x if x.shape == shape else np.broadcast_to(x, shape)


def summed_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Sum an array over the axes along which `shape` was broadcast, the transpose of broadcasting."""
    while x.ndim > len(shape):
        x = array(x.sum(0))
    for axis, size in enumerate(shape):
        if size == 1 and x.shape[axis] != 1:
            x = x.sum(axis, keepdims=True)
    return x


Pull = Callable[[Jet], Jet]  # maps the derivative by a result to the derivative by an input


@dataclass(eq=False)
class Node:
    """A tensor of a program, with its parents and the maps that pull derivatives back to them.

    A node without parents is data or an input.
    """

    jet: Jet
    parents: tuple[tuple[Node, Pull], ...] = ()
    depends: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.jet.shape


@dataclass(eq=False)
class Tape:
    """The tensors in the order in which they were computed."""

    nodes: list[Node] = field(default_factory=list)

    def put(self, jet: Jet, *parents: tuple[Node, Pull]) -> Node:
        """Record a result. Parents that are data are left out."""
        followed = tuple((node, pull) for node, pull in parents if node.depends)
        node = Node(jet, followed, bool(followed))
        if followed:
            self.nodes.append(node)
        return node

    def linear(self, x: Node, f: Callable[[Array], Array], back: Callable[[Array], Array]) -> Node:
        """Record f(x) for a linear f with the transpose `back`."""
        return self.put(x.jet.map(f), (x, lambda a: a.map(back)))

    def add(self, x: Node, y: Node) -> Node:
        """Record x + y with broadcasting."""
        return self.put(
            x.jet + y.jet,
            (x, lambda a: a.map(lambda t: summed_to(t, x.shape))),
            (y, lambda a: a.map(lambda t: summed_to(t, y.shape))),
        )

    def mul(self, x: Node, y: Node) -> Node:
        """Record x·y, entry by entry, with broadcasting."""
        return self.put(
            x.jet * y.jet,
            (x, lambda a: (a * y.jet).map(lambda t: summed_to(t, x.shape))),
            (y, lambda a: (a * x.jet).map(lambda t: summed_to(t, y.shape))),
        )

    def matmul(self, x: Node, y: Node) -> Node:
        """Record the product of two matrices or stacks of matrices; both need at least two axes."""
        transpose = lambda t: np.swapaxes(t, -1, -2)  # noqa: E731
        return self.put(
            x.jet.paired(y.jet, np.matmul),
            (x, lambda a: a.paired(y.jet.map(transpose), np.matmul).map(lambda t: summed_to(t, x.shape))),
            (y, lambda a: x.jet.map(transpose).paired(a, np.matmul).map(lambda t: summed_to(t, y.shape))),
        )

    def apply(self, x: Node, orders: Callable[[Any], tuple[Any, Any, Any]]) -> Node:
        """Record φ(x), entry by entry. `orders` returns φ, φ' and φ'' at one ball."""
        flat = [orders(ball) for ball in x.jet.value.reshape(-1)]
        value, slope, bend = (_like(x.jet.value, [order[i] for order in flat]) for i in range(3))
        tangent = x.jet.tangent
        slopes = Jet(slope) if tangent is None else Jet(slope, array(bend * tangent))
        jet = Jet(value, None if tangent is None else array(slope * tangent))
        return self.put(jet, (x, lambda a: a * slopes))

    def gradients(self, output: Node, seed: Jet, inputs: Sequence[Node]) -> list[Jet | None]:
        """Return the derivatives of ⟨seed, output⟩ by the inputs; None for an input on which it does not depend."""
        adjoints: dict[int, Jet] = {id(output): seed}
        for node in reversed(self.nodes):
            adjoint = adjoints.get(id(node))
            if adjoint is None:
                continue
            for parent, pull in node.parents:
                part, earlier = pull(adjoint), adjoints.get(id(parent))
                adjoints[id(parent)] = part if earlier is None else earlier + part
        return [adjoints.get(id(x)) for x in inputs]


def _like(x: Array, entries: list[Any]) -> Array:
    result = np.empty(len(entries), dtype=object)
    result[:] = entries
    return result.reshape(x.shape)

"""Arrays of arb balls, with a tangent, and the derivative of a number by them in reverse.

A ball contains the exact number; python-flint computes with them at `BITS` bits, elementary functions included. An
array is a numpy array of balls. Beside it may stand its derivative in one direction, so that the reverse pass gives
products of second derivatives as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BITS = 128
Array = Any  # a numpy array of balls


def array(x: Any) -> Array:
    """As an array, also where numpy returns a single ball."""
    return x if isinstance(x, np.ndarray) else np.array(x, dtype=object)


@dataclass(frozen=True, eq=False)
class Jet:
    """Numbers, and their derivatives in one direction; None where these are 0."""

    value: Array
    tangent: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.value.shape
        return shape

    def map(self, f: Callable[[Array], Array]) -> Jet:
        """A linear function of the numbers."""
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
        """A product that is linear in both."""
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
    """The transpose of broadcasting."""
    while x.ndim > len(shape):
        x = array(x.sum(0))
    for axis, size in enumerate(shape):
        if size == 1 and x.shape[axis] != 1:
            x = x.sum(axis, keepdims=True)
    return x


Pull = Callable[[Jet], Jet]  # from the derivative by a result to that by an input


@dataclass(eq=False)
class Node:
    """A tensor of a program, and how derivatives go back to what it is made of; without parents, data or an input."""

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
        """A result; of its parents, those that are data are left out."""
        kept = tuple((node, pull) for node, pull in parents if node.depends)
        node = Node(jet, kept, bool(kept))
        if kept:
            self.nodes.append(node)
        return node

    def linear(self, x: Node, f: Callable[[Array], Array], back: Callable[[Array], Array]) -> Node:
        """f(x) for a linear f, with its transpose."""
        return self.put(x.jet.map(f), (x, lambda a: a.map(back)))

    def add(self, x: Node, y: Node) -> Node:
        """x + y, broadcast."""
        return self.put(
            x.jet + y.jet,
            (x, lambda a: a.map(lambda t: summed_to(t, x.shape))),
            (y, lambda a: a.map(lambda t: summed_to(t, y.shape))),
        )

    def mul(self, x: Node, y: Node) -> Node:
        """x·y entry by entry, broadcast."""
        return self.put(
            x.jet * y.jet,
            (x, lambda a: (a * y.jet).map(lambda t: summed_to(t, x.shape))),
            (y, lambda a: (a * x.jet).map(lambda t: summed_to(t, y.shape))),
        )

    def matmul(self, x: Node, y: Node) -> Node:
        """A product of matrices or of stacks of them, both of two axes at least."""
        turned = lambda t: np.swapaxes(t, -1, -2)  # noqa: E731
        return self.put(
            x.jet.paired(y.jet, np.matmul),
            (x, lambda a: a.paired(y.jet.map(turned), np.matmul).map(lambda t: summed_to(t, x.shape))),
            (y, lambda a: x.jet.map(turned).paired(a, np.matmul).map(lambda t: summed_to(t, y.shape))),
        )

    def apply(self, x: Node, orders: Callable[[Any], tuple[Any, Any, Any]]) -> Node:
        """φ entry by entry, from a function of one ball that returns φ, φ' and φ''."""
        flat = [orders(ball) for ball in x.jet.value.reshape(-1)]
        value, slope, bend = (_like(x.jet.value, [order[i] for order in flat]) for i in range(3))
        tangent = x.jet.tangent
        moved = Jet(slope) if tangent is None else Jet(slope, array(bend * tangent))
        jet = Jet(value, None if tangent is None else array(slope * tangent))
        return self.put(jet, (x, lambda a: a * moved))

    def gradients(self, output: Node, seed: Jet, inputs: Sequence[Node]) -> list[Jet | None]:
        """The derivatives of ⟨seed, output⟩ by the inputs; None where one does not enter."""
        adjoints: dict[int, Jet] = {id(output): seed}
        for node in reversed(self.nodes):
            adjoint = adjoints.get(id(node))
            if adjoint is None:
                continue
            for parent, pull in node.parents:
                part, before = pull(adjoint), adjoints.get(id(parent))
                adjoints[id(parent)] = part if before is None else before + part
        return [adjoints.get(id(x)) for x in inputs]


def _like(x: Array, entries: list[Any]) -> Array:
    result = np.empty(len(entries), dtype=object)
    result[:] = entries
    return result.reshape(x.shape)

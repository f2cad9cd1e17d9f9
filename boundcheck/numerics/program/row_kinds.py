"""How a value of a program depends on the examples: not at all, one entry for each, or as a sum over all of them.

A program is recorded for several numbers n of examples. So every size and every number in it is a tuple, with an entry
for each n, and is what it is at these n only: nothing is concluded for others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor

from boundcheck.numerics.program.recorded_program import Declined

RATIO_ROUNDING = 1e-15  # relative: a step or two of float64, as of 1/n
POWERS = (0, 1, -1)


@dataclass(frozen=True)
class RowKind:
    """How a value depends on the examples.

    Attributes
    ----------
    power : int
        The value is nᵖ times what is said below.
    """

    power: int = 0


@dataclass(frozen=True)
class NoExamples(RowKind):
    """No example enters: the same operations on the same numbers, for every n."""


@dataclass(frozen=True)
class ExampleRows(RowKind):
    """Along one axis an entry for each example, or `inner` of them, the same function of that example alone.

    Attributes
    ----------
    axis : int
        The axis; its size is n·inner, and the entries of one example are beside each other.
    inner : int
        The entries of one example.
    """

    axis: int = 0
    inner: int = 1


@dataclass(frozen=True)
class ExampleSum(RowKind):
    """The sum over the examples of one function of each; nothing else depends on them. The mean has power −1."""


@dataclass(frozen=True)
class Zero(NoExamples):
    """The number 0, which has every power."""


@dataclass(frozen=True)
class Sized:
    """A kind with the shapes at every n."""

    kind: RowKind
    shapes: tuple[Size, ...]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shapes[0])

    @property
    def from_the_right(self) -> int:
        """The place of the examples, counted from the last axis, as broadcasting does."""
        return self.rank - self.kind.axis if isinstance(self.kind, ExampleRows) else 0


def power_of(values: Sequence[float], counts: Sequence[int]) -> int | None:
    """p with values = c·nᵖ for one c, for p in 0, 1, −1; None if there is none."""
    for p in POWERS:
        base = [v / n**p for v, n in zip(values, counts, strict=True)]
        if all(x == base[0] or math.isclose(x, base[0], rel_tol=4 * RATIO_ROUNDING) for x in base):
            return p
    return None


def of_numbers(values: Sequence[Any], counts: Sequence[int]) -> Sized:
    """The kind of a number, or of a tensor of numbers, that the program reads, from its values at every n."""
    if any(isinstance(v, Tensor) and v.numel() != 1 for v in values):
        return _of_tensors(values, counts)
    shapes = tuple(v.shape if isinstance(v, Tensor) else Size() for v in values)
    numbers = [float(v.item() if isinstance(v, Tensor) else v) for v in values]
    if all(x == 0 for x in numbers):
        return Sized(Zero(), shapes)
    power = power_of(numbers, counts)
    if power is None:
        raise Declined(f"the number {numbers[-1]:g} changes with the number of examples")
    return Sized(NoExamples(power), shapes)


def _of_tensors(values: Sequence[Tensor], counts: Sequence[int]) -> Sized:
    shapes = tuple(v.shape for v in values)
    if len(set(shapes)) == 1:
        if all(v is values[0] or torch.equal(v, values[0]) for v in values[1:]):
            return Sized(NoExamples(), shapes)
        raise Declined("numbers that were computed from the number of examples, or are random")
    axis = varying(shapes, counts)
    row = values[0].select(axis, 0)
    if not all(torch.equal(v, row.unsqueeze(axis).expand_as(v)) for v in values):
        raise Declined("numbers outside of the data that are not the same for every example")
    return Sized(ExampleRows(0, axis, 1), shapes)


def varying(shapes: Sequence[Size], counts: Sequence[int]) -> int:
    """The only axis whose size varies with n; it has to be n."""
    if len({len(shape) for shape in shapes}) == 1:
        axes = [axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
        if len(axes) == 1 and all(shape[axes[0]] == n for shape, n in zip(shapes, counts, strict=True)):
            return axes[0]
    raise Declined(f"a tensor of shape {tuple(shapes[-1])} that has no row for each example")


def fits(kind: RowKind, shapes: Sequence[Size], counts: Sequence[int]) -> bool:
    """Can a value of this kind have these shapes?"""
    if not isinstance(kind, ExampleRows):
        return len(set(shapes)) == 1
    if len({len(shape) for shape in shapes}) != 1 or not kind.axis < len(shapes[0]):
        return False
    if any(shape[kind.axis] != n * kind.inner for shape, n in zip(shapes, counts, strict=True)):
        return False
    return len({(shape[: kind.axis], shape[kind.axis + 1 :]) for shape in shapes}) == 1

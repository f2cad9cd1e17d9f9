"""Kinds of dependence of a value on the examples: none, one entry for each, or a sum over all of them.

A program is recorded for several numbers n of examples. So every size and every number of the program is a tuple with
one entry for each n. Statements hold for these n only; nothing is concluded for other n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor

from boundcheck.numerics.program.recorded_program import Declined

RATIO_ROUNDING = 1e-15  # relative: one or two roundings in float64, as in 1/n
POWERS = (0, 1, -1)


@dataclass(frozen=True)
class RowKind:
    """The dependence of a value on the examples.

    Attributes
    ----------
    power : int
        p: the value is nᵖ times a value of the kind that the subclass describes.
    """

    power: int = 0


@dataclass(frozen=True)
class NoExamples(RowKind):
    """No example enters: the value comes from the same operations on the same numbers for every n."""


@dataclass(frozen=True)
class ExampleRows(RowKind):
    """One entry, or `inner` entries, for each example along one axis; each is the same function of that example alone.

    Attributes
    ----------
    axis : int
        The axis. Its size is n·inner, and the entries of one example are adjacent.
    inner : int
        The number of entries of one example.
    """

    axis: int = 0
    inner: int = 1


@dataclass(frozen=True)
class ExampleSum(RowKind):
    """The sum over the examples of one function of each example. The mean has power −1."""


@dataclass(frozen=True)
class Zero(NoExamples):
    """The number 0, for which every power is correct."""


@dataclass(frozen=True)
class Sized:
    """A kind, with the shape of the value for every n."""

    kind: RowKind
    shapes: tuple[Size, ...]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shapes[0])

    @property
    def from_the_right(self) -> int:
        """The axis of the examples, counted from the last axis as in broadcasting; 0 if there is none."""
        return self.rank - self.kind.axis if isinstance(self.kind, ExampleRows) else 0


def power_of(values: Sequence[float], counts: Sequence[int]) -> int | None:
    """Return p in {0, 1, −1} such that values = c·nᵖ for one c; None if there is no such p."""
    for p in POWERS:
        base = [v / n**p for v, n in zip(values, counts, strict=True)]
        if all(x == base[0] or math.isclose(x, base[0], rel_tol=4 * RATIO_ROUNDING) for x in base):
            return p
    return None


def of_numbers(values: Sequence[Any], counts: Sequence[int]) -> Sized:
    """Return the kind of a number or tensor that is constant in the program, from its values for every n."""
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
        raise Declined("it reads numbers that are random or depend on the number of examples")
    axis = varying(shapes, counts)
    row = values[0].select(axis, 0)
    if not all(torch.equal(v, row.unsqueeze(axis).expand_as(v)) for v in values):
        raise Declined("it reads numbers outside the data that are not the same for every example")
    return Sized(ExampleRows(0, axis, 1), shapes)


def varying(shapes: Sequence[Size], counts: Sequence[int]) -> int:
    """Return the only axis whose size varies with n. Decline unless there is one such axis and its size is n."""
    if len({len(shape) for shape in shapes}) == 1:
        axes = [axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
        if len(axes) == 1 and all(shape[axes[0]] == n for shape, n in zip(shapes, counts, strict=True)):
            return axes[0]
    raise Declined(f"a tensor of shape {tuple(shapes[-1])} does not have one row for each example")


def fits(kind: RowKind, shapes: Sequence[Size], counts: Sequence[int]) -> bool:
    """Return True if a value of this kind can have these shapes."""
    if not isinstance(kind, ExampleRows):
        return len(set(shapes)) == 1
    if len({len(shape) for shape in shapes}) != 1 or not kind.axis < len(shapes[0]):
        return False
    if any(shape[kind.axis] != n * kind.inner for shape, n in zip(shapes, counts, strict=True)):
        return False
    return len({(shape[: kind.axis], shape[kind.axis + 1 :]) for shape in shapes}) == 1

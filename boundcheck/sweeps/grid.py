"""The grid of a sweep: the values of each axis, and the points in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch

from boundcheck.errors import InputError
from boundcheck.methods import count
from boundcheck.sweeps.axis_text import FORMS, MOST, once, values_from_text
from boundcheck.sweeps.code_digest import PLAIN
from boundcheck.sweeps.maker import Maker

STEPS = {"check": ("t",), "plan": ("eps", "rtol")}  # axes that are arguments of the action, not options of the problem
ELSEWHERE = {
    "t": "plans find t themselves; leave it out, or leave out action='plan' (--plan)",
    "eps": "it is an accuracy of plans; add action='plan' (--plan)",
    "rtol": "it is an accuracy of plans; add action='plan' (--plan)",
    "method": "name methods with --method (methods=[…])",
    "methods": "name methods with --method (methods=[…])",
    "sample": "draw several λ with --samples (samples=…)",
    "samples": "draw several λ with --samples (samples=…)",
}
FIXED = 500.0  # a check costs about as much as so many steps, in addition to its own steps
REPEATED = ("seed", "sample")  # axes that repeat a measurement; the other axes change the problem


@dataclass(frozen=True)
class Point:
    """One task: a value for each axis, the index of the drawn λ, and the relative cost."""

    options: Mapping[str, Any]
    sample: int
    cost: float


@dataclass(frozen=True)
class Grid:
    """The axes in the order of the user, and the number of λ to draw at each point.

    Attributes
    ----------
    axes : mapping from str to tuple
        The values of each axis.
    samples : int
        The number of λ to draw at each point.
    """

    axes: Mapping[str, tuple[Any, ...]]
    samples: int = 1

    @property
    def points(self) -> Iterator[Point]:
        """The points; the last axis varies fastest."""
        for values in product(*self.axes.values()):
            options = dict(zip(self.axes, values, strict=True))
            for sample in range(self.samples):
                yield Point(options, sample, FIXED + options.get("t", 0))

    def __len__(self) -> int:
        return math.prod(map(len, self.axes.values())) * self.samples

    @property
    def wide(self) -> list[str]:
        """The axes with several values; those that only repeat a measurement come last."""
        several = [name for name, values in self.axes.items() if len(values) > 1]
        several += ["sample"] * (self.samples > 1)
        return sorted(several, key=lambda name: name in REPEATED)

    def values(self, axis: str) -> tuple[Any, ...]:
        """Return the values of an axis.

        Parameters
        ----------
        axis : str
            The name of the axis, or "sample" for the drawn λ.

        Returns
        -------
        tuple
            The values in order.
        """
        return tuple(range(self.samples)) if axis == "sample" and axis not in self.axes else self.axes[axis]


def grid_of(maker: Maker, over: Mapping[str, Any], samples: int, action: str) -> Grid:
    """Return the grid; InputError if the problem does not take an option, or a value cannot be used."""
    axes: dict[str, tuple[Any, ...]] = {}
    for name, values in over.items():
        steps = name in STEPS[action]
        if steps and not _finished(maker) and maker.source.takes(name):
            own = f"{name} is an option of {maker.name} and also of the {action}"
            raise InputError(f"--over {name}: {own}; rename that of {maker.name}")
        if not steps:
            if name in ELSEWHERE and not (not _finished(maker) and maker.source.takes(name)):
                raise InputError(f"--over {name} is not an axis; {ELSEWHERE[name]}")
            maker.source.require(name)
        types = (int,) if name == "t" else (float,) if steps else maker.types(name)
        what = name if steps else f"option {name} of {maker.name}"
        if isinstance(values, str):
            axes[name] = tuple(values_from_text(name, values, types, what))
        else:
            axes[name] = tuple(once(name, plain_values(name, values)))
        for value in axes[name] if steps else ():
            refuse_unless_usable(name, value)
    grid = Grid(axes, count(samples, "samples", least=1))
    if len(grid) > MOST:
        raise InputError(f"the grid has {len(grid)} points, more than {MOST}; give fewer values")
    return grid


def _finished(maker: Maker) -> bool:
    from boundcheck.numerics.bilevel.problem import Problem

    return isinstance(maker.source.target, Problem)


def plain_values(name: str, values: object) -> Iterator[Any]:
    """Yield the values as a table can hold them: numbers, text, true, false and None."""
    if not isinstance(values, Iterable):
        raise InputError(f"over[{name!r}] = {values!r} is one value; give a list, or text: {FORMS}")
    for value in values:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, torch.dtype):
            value = str(value).removeprefix("torch.")
        if not isinstance(value, PLAIN) or (isinstance(value, float) and not math.isfinite(value)):
            what = f"over[{name!r}] has {value!r}, which a table of the sweep cannot hold"
            raise InputError(f"{what}; give finite numbers, text, true, false or None")
        yield value


def refuse_unless_usable(name: str, value: Any) -> None:
    """Raise InputError if a number of steps or an accuracy cannot be used."""
    from boundcheck.compare.plan import refuse_unless_positive

    count(value, "t", least=1) if name == "t" else refuse_unless_positive(name, value)

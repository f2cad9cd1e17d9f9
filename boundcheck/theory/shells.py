"""Constants that depend on the distance to w*, and the values that hold at a given radius."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Table = tuple[tuple[float, float], ...]  # pairs of a radius and the value on that ball, in order of falling radii

INSIDE = 1e-9  # relative margin by which a point must be inside a ball, so that rounding never picks too small a ball


@dataclass(frozen=True)
class Shell:
    """The points of a ball around w* that are not in the next smaller ball, with the constants of the ball.

    Attributes
    ----------
    radius : float
        The radius of the ball; infinite for the largest ball, which has the constants of the theorem.
    inner : float
        The radius of the next smaller ball; 0 if there is none.
    constants : mapping from str to float
        The constants that differ from shell to shell.
    """

    radius: float
    inner: float
    constants: Mapping[str, float]


def shells_of(values: Mapping[str, float], tables: Mapping[str, Table]) -> tuple[Shell, ...]:
    """The shells between all radii of some tables, from the largest ball to the smallest.

    Parameters
    ----------
    values : mapping from str to float
        The constants on the largest ball.
    tables : mapping from str to tuple of (float, float)
        The values of some constants on smaller balls.

    Returns
    -------
    tuple of Shell
        One shell more than there are different radii.
    """
    falling = sorted({radius for table in tables.values() for radius, _ in table}, reverse=True)
    shells = []
    for radius, inner in zip((float("inf"), *falling), (*falling, 0.0), strict=True):
        constants = {name: _value_on_ball(radius, values[name], table) for name, table in tables.items()}
        shells.append(Shell(radius, inner, constants))
    return tuple(shells)


def _value_on_ball(radius: float, outer: float, table: Table) -> float:
    """The value on the smallest ball of the table that contains the ball of this radius."""
    return next((value for of_ball, value in reversed(table) if of_ball >= radius), outer)


def place(shells: tuple[Shell, ...], radius: float) -> int:
    """The number of the smallest ball that certainly contains a point at this distance."""
    number = len(shells) - 1
    while number and radius * (1 + INSIDE) > shells[number].radius:
        number -= 1
    return number

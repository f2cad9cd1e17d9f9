"""Read one axis of a grid from text: `kappa=10:1e5:9:log`, `seed=0:20`, `noise=0.1:0.5:5`, `dynamics=a,b`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from boundcheck.errors import InputError
from boundcheck.problems.parts.option_text import Readable, option_value

MOST = 100_000  # the largest number of values of an axis, and of points of a grid
DIGITS = 12  # digits of the numbers of a range, so that 10:1e5:9:log contains 100, not 99.99999999999999
FORMS = "write NAME=a:b:n, a:b:n:log, 0:20 for whole numbers, or values with commas"


def name_and_text(text: str) -> tuple[str, str]:
    """Split the text at its first `=`."""
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not name or not values:
        raise InputError(f"--over {text} is not NAME=VALUES; {FORMS}")
    return name, values


def values_from_text(name: str, text: str, types: tuple[Readable, ...] = (), what: str = "") -> list[Any]:
    """Return the values of an axis.

    Parameters
    ----------
    name : str
        The name of the axis.
    text : str
        A range, or values with commas.
    types : tuple of type
        The types that a value may have; any type if empty.
    what : str
        The name of the values in messages.

    Returns
    -------
    list
        Each value once, in order. The numbers of a range are rounded if only whole numbers are allowed.

    Raises
    ------
    InputError
        If the range or a value cannot be used.

    Examples
    --------
    >>> from boundcheck.sweeps.axis_text import values_from_text
    >>> values_from_text("kappa", "10:1000:3:log"), values_from_text("seed", "0:3"), values_from_text("b", "1,2.5")
    ([10.0, 100.0, 1000.0], [0, 1, 2], [1, 2.5])
    """
    what, parts = what or name, [part.strip() for part in text.split(":")]
    if len(parts) == 1:
        return once(name, (option_value(part.strip(), types, what) for part in text.split(",")))
    if types and not {int, float} & set(types):
        raise InputError(f"--over {name}={text} is a range, and {what} is not a number; give values with commas")
    numbers: Iterable[float] = _whole(name, text, *parts) if len(parts) == 2 else _spaced(name, text, parts)
    if isinstance(numbers, range) and len(numbers) > MOST:
        return once(name, numbers)
    if types and float not in types:
        numbers = [round(value) for value in numbers]
    elif int not in types and types:
        numbers = [float(value) for value in numbers]
    return once(name, numbers)


def once(name: str, values: Iterable[Any]) -> list[Any]:
    """Return each value once, in order."""
    first_values = list(islice(values, MOST + 1))  # a range may have billions
    if len(first_values) > MOST:
        many = len(values) if isinstance(values, range) else f"more than {MOST}"
        raise InputError(f"--over {name} has {many} values; give from 1 to {MOST}")
    distinct = list(dict.fromkeys(first_values))
    for value in distinct:
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"--over {name} has the value {value}; give finite numbers")
    if not distinct:
        raise InputError(f"--over {name} has no values; give from 1 to {MOST}")
    return distinct


def _whole(name: str, text: str, first: str, end: str) -> range:
    """Return the range from `first` to `end`, without `end`, as in Python."""
    try:
        values = range(int(first), int(end))
    except ValueError:
        why = "is a range a:b, which is for whole numbers"
        raise InputError(f"--over {name}={text} {why}; for n numbers write {name}={first}:{end}:9") from None
    if not values:
        raise InputError(f"--over {name}={text} is empty: {end} is not included; give a larger end")
    return values


def _spaced(name: str, text: str, parts: list[str]) -> list[float]:
    """Return n numbers from a to b, both included."""
    what = f"--over {name}={text}"
    if len(parts) > 4 or parts[3:] not in ([], ["log"]):
        raise InputError(f"{what} is not a range; {FORMS}")
    try:
        first, last, count = float(parts[0]), float(parts[1]), int(parts[2])
    except ValueError:
        raise InputError(f"{what} is not a range of numbers; {FORMS}") from None
    if not np.isfinite([first, last]).all():
        raise InputError(f"{what} has an end that is not finite; give finite numbers")
    if not 1 <= count <= MOST:
        raise InputError(f"{what} asks for {count} values; give from 1 to {MOST}")
    if not parts[3:]:
        return [float(f"{x:.{DIGITS}g}") for x in np.linspace(first, last, count)]
    if not (first > 0 and last > 0):
        raise InputError(f"{what} is logarithmic, so both ends must be positive; change them, or leave out :log")
    return [float(f"{x:.{DIGITS}g}") for x in np.geomspace(first, last, count)]

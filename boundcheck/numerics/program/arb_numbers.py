"""Stored numbers as arb balls, and balls as numbers: conversions that lose nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from boundcheck.numerics.program.arb_arrays import BITS, Jet, array
from boundcheck.numerics.program.recorded_program import Declined

try:
    import flint
except ImportError:  # the extra `rigorous`
    flint = None  # type: ignore[assignment]

UP = 1 + 2.0**-50  # a ball becomes a float by rounding to the nearest


def is_installed() -> bool:
    """Is python-flint there?"""
    return flint is not None


def exact(x: float) -> Any:
    """A number as a ball without width."""
    return flint.arb(x)


def balls(x: Tensor) -> Any:
    """Stored numbers, which are exact."""
    numbers = x.detach().cpu().double()
    if not bool(numbers.isfinite().all()):
        raise Declined("a number is not finite")
    result = np.empty(numbers.numel(), dtype=object)
    result[:] = [flint.arb(number) for number in numbers.reshape(-1).tolist()]
    return result.reshape(tuple(numbers.shape))


def norm(x: Any) -> float:
    """At least the Euclidean norm of all numbers in the balls of an array."""
    squares = sum((ball.abs_upper() ** 2 for ball in array(x).reshape(-1)), flint.arb(0))
    size = float(squares.abs_upper().sqrt().abs_upper()) * UP
    if not math.isfinite(size):
        raise Declined("a result is not finite")
    return size + 1e-300


def precision() -> Any:
    """Balls have `BITS` bits inside of it."""
    return flint.ctx.workprec(BITS)


def number(mid: float, rad: float) -> Any:
    """A ball."""
    if not math.isfinite(rad):
        raise Declined("a number is not known")
    return flint.arb(mid, rad)


def value(jet: Jet | None, size: int) -> Any:
    """Derivatives as a vector; 0 where there are none."""
    return filled(np.empty(size), 0.0) if jet is None else jet.value.reshape(-1)


def tangent(jet: Jet | None, size: int) -> Any:
    """Second derivatives along the direction, as a vector."""
    return filled(np.empty(size), 0.0) if jet is None or jet.tangent is None else jet.tangent.reshape(-1)


def filled(x: Any, number: float) -> Any:
    """An array of the shape of x, with the same number everywhere."""
    result = np.empty(x.shape, dtype=object)
    result[...] = flint.arb(number)
    return result

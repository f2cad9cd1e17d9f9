"""Convert stored numbers to arb balls without error, and balls to upper bounds."""

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

UP = 1 + 2.0**-50  # covers the rounding to nearest when a ball is converted to a float


def is_installed() -> bool:
    """Return True if python-flint is installed."""
    return flint is not None


def exact(x: float) -> Any:
    """Return a number as a ball of radius 0."""
    return flint.arb(x)


def balls(x: Tensor) -> Any:
    """Return the numbers of a tensor as an array of balls of radius 0."""
    numbers = x.detach().cpu().double()
    if not bool(numbers.isfinite().all()):
        raise Declined("a number is not finite")
    result = np.empty(numbers.numel(), dtype=object)
    result[:] = [flint.arb(number) for number in numbers.reshape(-1).tolist()]
    return result.reshape(tuple(numbers.shape))


def norm(x: Any) -> float:
    """Return an upper bound of the Euclidean norm of any numbers in the balls of an array."""
    squares = sum((ball.abs_upper() ** 2 for ball in array(x).reshape(-1)), flint.arb(0))
    size = float(squares.abs_upper().sqrt().abs_upper()) * UP
    if not math.isfinite(size):
        raise Declined("a result is not finite")
    return size + 1e-300


def precision() -> Any:
    """Return a context in which balls have `BITS` bits."""
    return flint.ctx.workprec(BITS)


def number(mid: float, rad: float) -> Any:
    """Return the ball with this midpoint and radius."""
    if not math.isfinite(rad):
        raise Declined("the radius of a number is not finite")
    return flint.arb(mid, rad)


def value(jet: Jet | None, size: int) -> Any:
    """Return derivatives as a vector; zeros for None."""
    return filled(np.empty(size), 0.0) if jet is None else jet.value.reshape(-1)


def tangent(jet: Jet | None, size: int) -> Any:
    """Return derivatives along the direction as a vector; zeros if there are none."""
    return filled(np.empty(size), 0.0) if jet is None or jet.tangent is None else jet.tangent.reshape(-1)


def filled(x: Any, number: float) -> Any:
    """Return an array of balls with the shape of x, all equal to a number."""
    result = np.empty(x.shape, dtype=object)
    result[...] = flint.arb(number)
    return result

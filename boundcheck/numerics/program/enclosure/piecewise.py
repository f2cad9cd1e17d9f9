"""Functions of one number with kinks: piecewise linear functions, functions with a piece of e^x, and Huber's loss.

If a derivative jumps inside an interval, its range contains the values on both sides, and the ranges of higher
derivatives are infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.elementary import TAIL, Elementary


def huber(delta: float) -> Elementary:
    """Return ½x² for |x| ≤ δ and δ(|x| − ½δ) beyond. Its second derivative jumps at ±δ."""
    return Elementary(
        (
            lambda x: torch.where(x.abs() <= delta, x * x / 2, delta * (x.abs() - delta / 2)),
            lambda x: x.clamp(-delta, delta),
            lambda x: (x.abs() <= delta).to(x),
            torch.zeros_like,
        ),
        ((0.0,), (), (), ()),
        kinks=((-delta, 2), (delta, 2)),
    )


def leaky_relu(slope: float = 0.01) -> Elementary:
    """Return x above 0, and slope·x below."""
    return Elementary(
        (
            lambda x: torch.where(x > 0, x, slope * x),
            lambda x: torch.where(x > 0, torch.ones_like(x), torch.full_like(x, slope)),
            torch.zeros_like,
            torch.zeros_like,
        ),
        kinks=((0.0, 1),),
    )


def clamp(low: float | None = None, high: float | None = None) -> Elementary:
    """Return x between two numbers low ≤ high, and the nearer of them outside."""
    least, most = -math.inf if low is None else float(low), math.inf if high is None else float(high)
    return Elementary(
        (
            lambda x: x.clamp(least, most),
            lambda x: ((x >= least) & (x <= most)).to(x),
            torch.zeros_like,
            torch.zeros_like,
        ),
        kinks=tuple((end, 1) for end in (least, most) if math.isfinite(end)),
        fold="positive" if (least, most) == (0.0, math.inf) else "",
    )


def power_of_fold(fold: str, p: int) -> Elementary:
    """max(x, 0)^p or |x|^p for a whole p ≥ 2, as one function: its derivative of order p jumps at 0, none before it.

    The chain rule takes the second derivative of the fold as infinite at the kink, although it is multiplied by 0.
    """

    def derivative(order: int) -> Callable[[Tensor], Tensor]:
        factor = float(math.perm(p, order))

        def at(x: Tensor) -> Tensor:
            above = _of_positive(x, p - order)
            if fold == "positive":
                return factor * above
            below = _of_positive(-x, p - order)
            return factor * (above - below if order % 2 else above + below)

        return at if order <= p else torch.zeros_like

    derivatives = derivative(0), derivative(1), derivative(2), derivative(3)
    return Elementary(derivatives, ((0.0,), (0.0,), (0.0,), (0.0,)), kinks=((0.0, p),) if p <= 3 else ())


def _of_positive(x: Tensor, p: int) -> Tensor:
    """Return max(x, 0)^p, and for p = 0 whether x is positive."""
    return x.clamp(min=0).pow(p) if p else (x > 0).to(x)


def elu(alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Elementary:
    """Return s·x above 0, and s·α(e^(ix) − 1) below. selu is a special case, and celu(α) is the case i = 1/α."""
    a, s, i = float(alpha), float(scale), float(input_scale)

    def below(x: Tensor) -> Tensor:
        return torch.exp(i * x.clamp(max=0))

    return Elementary(
        (
            lambda x: torch.where(x > 0, s * x, s * a * torch.expm1(i * x.clamp(max=0))),
            lambda x: torch.where(x > 0, torch.full_like(x, s), s * a * i * below(x)),
            lambda x: torch.where(x > 0, torch.zeros_like(x), s * a * i**2 * below(x)),
            lambda x: torch.where(x > 0, torch.zeros_like(x), s * a * i**3 * below(x)),
        ),
        scale=(TAIL * abs(s * a), TAIL * abs(s * a * i), TAIL * abs(s * a * i**2), TAIL * abs(s * a * i**3)),
        kinks=((0.0, 2 if a * i == 1 else 1),),
    )

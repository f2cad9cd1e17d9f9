"""The range of numbers for which products of a few of them neither overflow nor underflow.

Bounds on derivatives are products of norms. Outside this range a product may become 0 or infinite, and a bound of 0 for
a positive number is false. So problems with such numbers are refused. The error names the input that is the cause.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.derivatives import outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.lower_level import length

LARGEST = 1e75  # the product of four such numbers does not overflow in float64, in which bounds are computed
SMALLEST = 1e-75  # the smallest ‖w‖


@dataclass(frozen=True)
class _Range:
    """The range for the dtype of a problem, in which squares are finite and positive.

    E may be nearly flat, so the limit on its slopes is smaller.
    """

    largest: float
    smallest: float
    smallest_slope: float

    @classmethod
    def of(cls, problem: Problem) -> _Range:
        info = torch.finfo(problem.dtype)
        tiny = math.sqrt(info.tiny)
        return cls(min(LARGEST, math.sqrt(info.max)), max(SMALLEST, tiny), tiny)


def refuse_start(problem: Problem, lam: Tensor, phi: Tensor) -> None:
    """Refuse a problem whose λ, w_0, Φ(w_0) or ∇₁E(w_0) is outside the range."""
    _refuse(problem, "‖hparams‖", _length(lam), 0.0, "hparams")
    _refuse(problem, "‖params‖", _length(problem.w0), 0.0, "params")
    _refuse(problem, "‖Φ(params)‖", max(_length(phi), _length(problem.w0)), _Range.of(problem).smallest, "params")
    _refuse(problem, "‖∇₁E(params)‖", _slope_at_start(problem, lam), 0.0, "outer_loss")


def refuse_solution(problem: Problem, w: Tensor, v: Tensor) -> None:
    """Refuse a problem whose w(λ) is outside the range, or whose E is too flat both at w_0 and at w(λ).

    v is (I − ∂₁Φᵀ)⁻¹∇₁E at w(λ).
    """
    _refuse(problem, "‖w(λ)‖", _length(w), 0.0, "params")
    what, size = "‖(I − ∂₁Φᵀ)⁻¹∇₁E‖", _length(v)
    _refuse(problem, what, size, 0.0, "outer_loss")
    if size < (smallest := _Range.of(problem).smallest_slope):
        _refuse(problem, what, max(size, _slope_at_start(problem, problem.lam)), smallest, "outer_loss")


def _slope_at_start(problem: Problem, lam: Tensor) -> float:
    with torch.enable_grad():
        return _length(outer_gradients(problem, problem.w0, Prepared(problem, lam).leaves).w)


def _length(x: Tensor) -> float:
    return float(length(x.detach().double()))


def _refuse(problem: Problem, what: str, size: float, smallest: float, whom: str) -> None:
    largest = _Range.of(problem).largest
    if size > largest or 0 < size < smallest:
        end = f"more than {largest:.0e}" if size > largest else f"less than {smallest:.0e}"
        raise InputError(
            f"{problem.name}: {what} = {size:.1e} is {end}, and products of such numbers leave the range of "
            f"{str(problem.dtype).removeprefix('torch.')}; scale {whom}, as in u = {whom}/c with c near {size:.0e}"
        )

"""Check autograd's derivative by central differences along random directions.

A correct function must never be refused. So finite differences refute autograd only if steps of many sizes agree with
each other, none agrees with autograd, the gap is many times larger than rounding and curvature explain, and autograd's
derivative hardly changes over the step. At kinks, jumps and cancellation, the steps disagree with each other, or one of
them agrees with autograd. Ripples too small to be visible in the values show as a derivative that changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import BoundcheckError

EXPONENTS = {torch.float64: range(3, 50, 3), torch.float32: range(2, 22, 2)}  # j of the steps 2⁻ʲ
FIRST = {torch.float64: 9, torch.float32: 6}  # j of the first step, which decides for smooth functions
AGREES = 3e-4  # relative gap up to which the first step agrees with autograd
WITHIN = 1e-2  # relative gap, with its uncertainty, up to which the best step agrees with autograd
GAP = 4e-3  # smallest relative gap that refutes autograd
CLEAR = 10.0  # a gap is clear if it is more than this many times its uncertainty
RUN = 3  # number of consecutive steps with a clear gap
NEAR = 0.3  # a step whose gap is at most this share of the typical gap supports autograd
SURE = 1000.0  # if rounding is this many times smaller than the gap, the gap at steps up to SMALL must be clear
SMALL = {torch.float64: 2.0**-12, torch.float32: 2.0**-8}
FINEST = {torch.float64: 2.0**-30, torch.float32: 2.0**-10}  # a step at which rounding must not exceed the gap
PARTS = (-0.83, -0.57, -0.23, 0.0, 0.31, 0.62, 0.97)  # fractions of a step at which the derivative is evaluated
ROUNDINGS = 4.0  # rounding error of a value, in units of rounding


@dataclass(frozen=True, eq=False)
class Line:
    """A function f along a line through x: f(x + s·u), paired with a cotangent c."""

    value: Callable[[Tensor], Tensor]
    gradient: Callable[[Tensor, Tensor], Tensor]  # (x, c) ↦ ∂f(x)ᵀc
    x: Tensor
    u: Tensor
    c: Tensor
    floor: float = 0.0  # smaller derivatives along u count as 0
    may_be_kink: bool = False  # whether f may have a kink at x
    may_refute: bool = True  # whether f is meant to be used at distances like the length of u


@dataclass(frozen=True)
class LineAgreement:
    """The verdict on autograd's derivative along one line: "agrees", "refutes" or "open"."""

    verdict: str
    autograd: float = math.nan
    difference: float = math.nan
    reason: str = ""  # the reason why the verdict is open
    by: str = "finite differences give"  # words before the value that refutes autograd


@dataclass(frozen=True)
class _Difference:
    h: float
    difference: float
    gap: float  # difference minus autograd's derivative
    noise: float
    bend: float  # the gap between the one-sided differences


def compare(line: Line) -> LineAgreement:
    """Compare autograd's derivative along the line with central differences."""
    dtype = line.x.dtype
    try:
        g = _double(line.gradient(line.x, line.c))
        at_x = line.value(line.x) if line.may_be_kink else None
    except (BoundcheckError, RuntimeError, ArithmeticError) as error:
        return LineAgreement("open", reason=f"it cannot be differentiated near the start ({type(error).__name__})")
    size = float((g * _double(line.u)).norm())
    if not math.isfinite(size):
        return LineAgreement("open", reason="it is not finite near the start")
    first = _step(line, g, FIRST[dtype], at_x)
    if first is not None and abs(first.gap) <= AGREES * size:
        return LineAgreement("agrees")
    steps = [first if j == FIRST[dtype] else _step(line, g, j, at_x) for j in EXPONENTS[dtype]]
    return _judge(steps, size, line)


def _judge(steps: list[_Difference | None], size: float, line: Line) -> LineAgreement:
    usable = [step for step in steps if step is not None]
    if len(usable) < RUN:
        return LineAgreement("open", reason="it is not finite near the start")
    kink = min(step.bend + step.noise for step in usable) if line.may_be_kink else 0.0
    unsure = [_uncertainty(steps, k) + kink for k in range(len(steps))]
    clear = [
        step is not None
        and abs(step.gap) > CLEAR * unsure[k]
        and abs(step.gap) >= GAP * max(size, abs(step.difference), line.floor)
        for k, step in enumerate(steps)
    ]
    runs = [k for k in range(1, len(steps) - 1) if all(clear[k - 1 : k + 2])]
    if runs:
        gaps = sorted((abs(step.gap), k) for k in runs if (step := steps[k]) is not None)
        gap, k = gaps[len(gaps) // 2]
        least = min(step.h for k in runs if (step := steps[k]) is not None)
        step = steps[k]
        if (
            step is not None
            and line.may_refute
            and _refutes(steps, clear, step, gap, line.x.dtype)
            and _calm(line, least, gap)
        ):
            return LineAgreement("refutes", step.difference - step.gap, step.difference)
    best = min(abs(step.gap) + unsure[k] for k, step in enumerate(steps) if step is not None)
    if best <= WITHIN * max(size, line.floor):
        return LineAgreement("agrees")
    share = best / size if size else math.inf
    return LineAgreement("open", reason=f"finite differences are too rough ({share:.1e} of the derivative)")


def _refutes(
    steps: list[_Difference | None], clear: list[bool], step: _Difference, gap: float, dtype: torch.dtype
) -> bool:
    """Return True if no step supports autograd, and no detail of the function can hide between steps and rounding."""
    for_autograd = [other for other in steps if other is not None and abs(other.gap) <= NEAR * gap]
    if len(for_autograd) > 1 or any(other.noise <= gap for other in for_autograd):  # a single noisy one may be chance
        return False
    for k, other in enumerate(steps):
        if other is not None and other.h <= SMALL[dtype] and SURE * other.noise < gap and not clear[k]:
            return False
    return step.noise * step.h / FINEST[dtype] <= gap


def _calm(line: Line, h: float, gap: float) -> bool:
    """Return True if autograd's derivative along u is affine over the step, up to a share of the gap."""
    u, parts = _double(line.u), torch.tensor(PARTS, dtype=torch.float64)
    try:
        slopes = [(_double(line.gradient(line.x + part * h * line.u, line.c)) * u).sum() for part in PARTS]
    except (BoundcheckError, RuntimeError, ArithmeticError):
        return False
    basis = torch.stack((torch.ones_like(parts), parts), dim=1)
    rest = torch.stack(slopes) - basis @ (torch.linalg.pinv(basis) @ torch.stack(slopes))
    return float(rest.abs().max()) <= NEAR * gap


def _uncertainty(steps: list[_Difference | None], k: int) -> float:
    """Return the largest difference between the gap at step k and at its neighbours, plus rounding."""
    step = steps[k]
    neighbours = [near.gap for near in steps[max(k - 1, 0) : k] + steps[k + 1 : k + 2] if near is not None]
    if step is None or not neighbours:
        return math.inf
    return max(abs(gap - step.gap) for gap in neighbours) + step.noise


def _step(line: Line, g: Tensor, exponent: int, at_x: Tensor | None) -> _Difference | None:
    """Return the central difference with step 2⁻ʲ; None if the function has no finite value."""
    h = 2.0**-exponent
    plus, minus = line.x + h * line.u, line.x - h * line.u
    try:
        up, down = _double(line.value(plus)), _double(line.value(minus))
    except (BoundcheckError, RuntimeError, ArithmeticError):  # outside the domain of the function
        return None
    c = _double(line.c)
    change = float((c * (up - down)).sum())
    predicted = float((g * (_double(plus) - _double(minus))).sum())  # along the step as rounded
    size = max(float((c * up).norm()), float((c * down).norm()))
    noise = ROUNDINGS * torch.finfo(line.x.dtype).eps * size / (2 * h)
    bend = 0.0 if at_x is None else abs(float((c * (up - 2 * _double(at_x) + down)).sum())) / h
    if not math.isfinite(change + noise + bend):
        return None
    return _Difference(h, change / (2 * h), (change - predicted) / (2 * h), noise, bend)


def _double(x: Tensor) -> Tensor:
    return x.detach().reshape(-1).to("cpu").to(torch.float64)

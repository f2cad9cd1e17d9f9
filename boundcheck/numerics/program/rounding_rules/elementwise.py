"""Arithmetic, and smooth functions of one number, entry by entry.

Assumptions: in float64, PyTorch's exp, expm1, log, log1p, log2, log10, sin, cos, tanh, sinh, cosh, atan, asinh and erf
are accurate to 4 units in the last place, and erfc to 8. The square root is correctly rounded, as IEEE requires.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.rounding_rules.ball import (
    TINY,
    Ball,
    Real,
    Refusal,
    U,
    add,
    ball,
    choose,
    close,
    div,
    down,
    function,
    mul,
    neg,
    square,
    sub,
    up,
)


def _steep(x: Ball, top: float, factor: float, rate: float) -> Tensor:
    """min(top, factor·e^(−rate·least |x|)) with a margin for rounding, as a bound of the slope."""
    least = (x.mid.abs() - x.rad).clamp(min=0)
    return (1.01 * factor * torch.exp(-rate * least)).clamp(max=top)


def exp(a: Real) -> Ball:
    """e^a: e^(m+r) − e^m = e^m(e^r − 1)."""
    x = ball(a)
    value = x.mid.exp()
    return function(value, value * x.rad.expm1())


def expm1(a: Real) -> Ball:
    """e^a − 1."""
    x = ball(a)
    return function(x.mid.expm1(), x.mid.exp() * x.rad.expm1())


def _logarithm(x: Ball, argument: Ball, value: Tensor, factor: float = 1.0) -> Ball:
    """A logarithm with this computed value and the slope factor/argument."""
    least = down(argument.mid - argument.rad)
    if not bool((least > 0).all()):
        raise Refusal("the argument of a logarithm may be 0 or less")
    return function(value, factor * x.rad / least)


def log(a: Real) -> Ball:
    """Natural logarithm."""
    x = ball(a)
    return _logarithm(x, x, x.mid.log())


def log1p(a: Real) -> Ball:
    """log(1 + a)."""
    x = ball(a)
    return _logarithm(x, add(x, 1.0), x.mid.log1p())


def sqrt(a: Real) -> Ball:
    """√a, by |√x − √m| = |x − m|/(√x + √m) ≤ r/√m. √0 = 0 stays exact."""
    x = ball(a)
    zero = (x.mid == 0) & (x.rad == 0)
    if not bool((zero | (x.mid > x.rad)).all()):
        raise Refusal("the argument of a square root may be 0 or less")
    value = x.mid.sqrt()
    rad = up(x.rad / value + U * value) + TINY
    return Ball(value, torch.where(zero, 0.0, rad))


def sigmoid(a: Real) -> Ball:
    """1/(1 + e^(−a)), with slope σ(1 − σ) ≤ min(¼, e^(−|a|)).

    `ulps` covers the errors of two exponentials and three roundings.
    """
    x = ball(a)
    e = (-x.mid.abs()).exp()
    value = torch.where(x.mid >= 0, 1.0, e) / (1 + e)
    return function(value, x.rad * _steep(x, 0.25, 1.0, 1.0), ulps=12)


def tanh(a: Real) -> Ball:
    """tanh(a), with slope 1/cosh² ≤ min(1, 4e^(−2|a|))."""
    x = ball(a)
    return function(x.mid.tanh(), x.rad * _steep(x, 1.0, 4.0, 2.0))


def softplus(a: Real) -> Ball:
    """log(1 + e^a) = max(a, 0) + log(1 + e^(−|a|)), with slope σ(a) ≤ min(1, e^a). No term is negative."""
    x = ball(a)
    value = x.mid.clamp(min=0) + torch.log1p(torch.exp(-x.mid.abs()))
    slope = (1.01 * torch.exp((x.mid + x.rad).clamp(max=0))).clamp(max=1.0)
    return function(value, x.rad * slope, ulps=16)


def _lipschitz(value: Callable[[Tensor], Tensor], slope: float) -> Callable[[Any], Ball]:
    def rule(a: Any) -> Ball:
        x = ball(a)
        return function(value(x.mid), slope * x.rad)

    return rule


def _hyperbolic(value: Callable[[Tensor], Tensor]) -> Callable[[Any], Ball]:
    """Return the rule of sinh or cosh, whose slope is at most cosh."""

    def rule(a: Any) -> Ball:
        x = ball(a)
        return function(value(x.mid), 1.01 * x.rad * (x.mid.abs() + x.rad).cosh())

    return rule


def _bell(x: Ball) -> Tensor:
    """Return an upper bound of the slope of erf, 2/√π e^(−x²), with a margin for rounding."""
    return 1.14 * torch.exp(-((x.mid.abs() - x.rad).clamp(min=0) ** 2))


def erf(a: Real) -> Ball:
    """Error function."""
    x = ball(a)
    return function(torch.erf(x.mid), x.rad * _bell(x))


def erfc(a: Real) -> Ball:
    """1 − erf. Libraries differ by up to 5 units in the last place."""
    x = ball(a)
    return function(torch.erfc(x.mid), x.rad * _bell(x), ulps=8)


def whole_power(a: Real, p: int) -> Ball:
    """a^p for an integer p, by repeated squaring."""
    if p < 0:
        return div(1.0, whole_power(a, -p))
    if p > 1024:
        raise Refusal(f"the power {p} is above 1024")
    x = ball(a)
    result, base = ball(torch.ones_like(x.mid)), x
    while p:
        result = mul(result, base) if p & 1 else result
        p >>= 1
        base = square(base) if p else base
    return result


def power(a: Real, p: Real) -> Ball:
    """a^p: products for an integer p, square roots for a half-integer p, otherwise e^(p log a) for a > 0.

    0^p = 0 for p > 0.
    """
    if isinstance(p, Ball) and p.exact and p.mid.numel() == 1 and not isinstance(a, int | float):
        p = float(p.mid)
    if isinstance(p, int | float):
        if float(p).is_integer():
            return whole_power(a, int(p))
        if float(2 * p).is_integer() and abs(p) < 64:
            return whole_power(sqrt(a), int(2 * p))
    x = ball(a)
    zero = (x.mid == 0) & (x.rad == 0)
    if bool(zero.any()) and not (isinstance(p, int | float) and p > 0):
        raise Refusal("the base of a power may be 0")
    result = exp(mul(p, log(Ball(torch.where(zero, 1.0, x.mid), x.rad))))
    return choose(zero, 0.0, result)


def gelu(a: Ball, approximate: str = "none") -> Ball:
    """aΦ(a), where Φ is the normal distribution function or its approximation by tanh."""
    return mul(a, _gate(a, approximate)[0])


def gelu_backward(grad: Ball, a: Ball, approximate: str = "none") -> Ball:
    """grad·(gate + a·gate')."""
    gate, slope = _gate(a, approximate)
    return mul(grad, add(gate, mul(a, slope)))


def _gate(a: Ball, approximate: str) -> tuple[Ball, Ball]:
    """Return the factor by which gelu multiplies a, and its derivative."""
    if approximate == "none":
        gate = mul(0.5, erfc(neg(mul(a, close(math.sqrt(0.5), a)))))
        return gate, mul(close(1 / math.sqrt(2 * math.pi), a), exp(mul(-0.5, square(a))))
    if approximate != "tanh":
        raise Refusal(f"gelu with approximate={approximate!r}")
    scale, cubic = close(math.sqrt(2 / math.pi), a), close(0.044715, a)
    t = tanh(mul(scale, add(a, mul(cubic, whole_power(a, 3)))))
    slope = mul(scale, add(1.0, mul(mul(3.0, cubic), square(a))))
    return mul(0.5, add(1.0, t)), mul(0.5, mul(sub(1.0, square(t)), slope))


def silu(a: Ball) -> Ball:
    """aσ(a)."""
    return mul(a, sigmoid(a))


def silu_backward(grad: Ball, a: Ball) -> Ball:
    """grad·σ(a)(1 + a(1 − σ(a))), with 1 − σ(a) = σ(−a)."""
    return mul(grad, mul(sigmoid(a), add(1.0, mul(a, sigmoid(neg(a))))))


def _add(a: Real, b: Real, *, alpha: float = 1) -> Ball:
    return add(a, b if alpha == 1 else mul(b, alpha))


def _sub(a: Real, b: Real, *, alpha: float = 1) -> Ball:
    return sub(a, b if alpha == 1 else mul(b, alpha))


def _rsub(a: Real, b: Real, *, alpha: float = 1) -> Ball:
    return _sub(b, a, alpha=alpha)


def _div(a: Real, b: Real, *, rounding_mode: str | None = None) -> Ball:
    if rounding_mode is not None:
        raise Refusal(f"a division with rounding_mode={rounding_mode!r}")
    return div(a, b)


def _log_to(base: float, value: Callable[[Tensor], Tensor]) -> Callable[[Ball], Ball]:
    def rule(x: Ball) -> Ball:
        return _logarithm(x, x, value(x.mid), 1.01 / math.log(base))

    return rule


RULES: dict[str, Callable[..., Any]] = {
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "mul": mul,
    "div": _div,
    "neg": neg,
    "reciprocal": lambda a: div(1.0, a),
    "square": square,
    "addcmul": lambda a, b, c, value=1: add(a, mul(value, mul(b, c))),
    "addcdiv": lambda a, b, c, value=1: add(a, mul(value, div(b, c))),
    "lerp": lambda a, b, weight: add(a, mul(weight, sub(b, a))),
    "exp": exp,
    "exp2": lambda a: exp(mul(a, close(math.log(2), a))),
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "log2": _log_to(2, torch.log2),
    "log10": _log_to(10, torch.log10),
    "sqrt": sqrt,
    "rsqrt": lambda a: div(1.0, sqrt(a)),
    "pow": power,
    "sin": _lipschitz(torch.sin, 1.0),
    "cos": _lipschitz(torch.cos, 1.0),
    "atan": _lipschitz(torch.atan, 1.0),
    "asinh": _lipschitz(torch.asinh, 1.0),
    "sinh": _hyperbolic(torch.sinh),
    "cosh": _hyperbolic(torch.cosh),
    "tanh": tanh,
    "tanh_backward": lambda grad, y: mul(grad, sub(1.0, square(y))),
    "sigmoid": sigmoid,
    "sigmoid_backward": lambda grad, y: mul(grad, mul(y, sub(1.0, y))),
    "erf": erf,
    "erfc": erfc,
    "gelu": gelu,
    "gelu_backward": gelu_backward,
    "silu": silu,
    "silu_backward": silu_backward,
}

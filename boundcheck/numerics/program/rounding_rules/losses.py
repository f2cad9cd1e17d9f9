"""Losses and their parts: softplus, softmax, and piecewise distances.

Each rule evaluates the mathematical definition in ball arithmetic, not the algorithm of PyTorch's kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.rounding_rules.ball import (
    Ball,
    Real,
    Refusal,
    add,
    ball,
    choose,
    div,
    mul,
    neg,
    point,
    square,
    sub,
    total,
)
from boundcheck.numerics.program.rounding_rules.decisions import maximum, positive, sign
from boundcheck.numerics.program.rounding_rules.elementwise import exp, log, log1p, sigmoid, softplus, sqrt
from boundcheck.numerics.program.rounding_rules.moves import mean, variance


def _softplus(x: Ball, beta: float = 1, threshold: float = 20) -> Ball:
    """log(1 + e^(βx))/β, or x if βx is above the threshold."""
    z = mul(x, beta)
    return choose(positive(sub(z, threshold)), x, div(softplus(z), beta))


def _softplus_backward(grad: Ball, x: Ball, beta: float, threshold: float) -> Ball:
    z = mul(x, beta)
    return choose(positive(sub(z, threshold)), grad, mul(grad, sigmoid(z)))


def _shifted(x: Ball, dim: int | list[int]) -> tuple[Ball, Tensor]:
    """Return x − c and c, the largest midpoint. c is a stored number, even if the largest entry is uncertain."""
    c = x.mid.amax(dim, keepdim=True)
    return sub(x, c), c


def _softmax(x: Ball, dim: int, half_to_float: bool = False) -> Ball:
    e = exp(_shifted(x, dim)[0])
    return div(e, total(e, dim, True))


def _log_softmax(x: Ball, dim: int, half_to_float: bool = False) -> Ball:
    below = _shifted(x, dim)[0]
    return sub(below, log(total(exp(below), dim, True)))


def _logsumexp(x: Ball, dim: Any, keepdim: bool = False) -> Ball:
    below, c = _shifted(x, dim)
    result = add(log(total(exp(below), dim, True)), c)
    return result if keepdim else result.map(lambda t: t.squeeze(tuple(dim) if isinstance(dim, list) else dim))


def _softmax_backward(grad: Ball, y: Ball, dim: int, dtype: Any) -> Ball:
    """y(grad − Σ grad·y)."""
    return mul(y, sub(grad, total(mul(grad, y), dim, True)))


def _log_softmax_backward(grad: Ball, y: Ball, dim: int, dtype: Any) -> Ball:
    """grad − e^y Σ grad."""
    return sub(grad, mul(exp(y), total(grad, dim, True)))


def _reduced(x: Ball, reduction: int) -> Ball:
    """Apply a reduction by ATen's number: 0 for none, 1 for the mean, 2 for the sum."""
    return x if reduction == 0 else total(x) if reduction == 2 else mean(x)


def _shared(grad: Ball, x: Ball, reduction: int) -> Ball:
    """Return the part of the gradient of a reduced loss that each entry gets."""
    return div(grad, float(x.mid.numel())) if reduction == 1 else grad


def _mse(x: Ball, y: Ball, reduction: int = 1) -> Ball:
    return _reduced(square(sub(x, y)), reduction)


def _mse_backward(grad: Ball, x: Ball, y: Ball, reduction: int) -> Ball:
    z = sub(x, y)
    return mul(_shared(grad, z, reduction), mul(2.0, z))


def _huber(x: Ball, y: Ball, reduction: int = 1, delta: float = 1.0) -> Ball:
    """½z² for |z| ≤ δ, else δ(|z| − δ/2)."""
    z = sub(x, y)
    size = Ball(z.mid.abs(), z.rad)
    far = mul(delta, sub(size, mul(0.5, delta)))
    return _reduced(choose(positive(sub(size, delta)), far, mul(0.5, square(z))), reduction)


def _huber_backward(grad: Ball, x: Ball, y: Ball, reduction: int, delta: float) -> Ball:
    z = sub(x, y)
    inside = ~positive(sub(Ball(z.mid.abs(), z.rad), delta))
    slope = choose(inside, z, mul(delta, sign(choose(inside, 1.0, z))))
    return mul(_shared(grad, z, reduction), slope)


def _smooth_l1(x: Ball, y: Ball, reduction: int = 1, beta: float = 1.0) -> Ball:
    """½z²/β for |z| < β, else |z| − β/2: Huber's loss with δ = β, divided by β."""
    if beta == 0:
        z = sub(x, y)
        return _reduced(Ball(z.mid.abs(), z.rad), reduction)
    return div(_huber(x, y, reduction, beta), beta)


def _smooth_l1_backward(grad: Ball, x: Ball, y: Ball, reduction: int, beta: float) -> Ball:
    if beta == 0:
        z = sub(x, y)
        return mul(_shared(grad, z, reduction), sign(z))
    return div(_huber_backward(grad, x, y, reduction, beta), beta)


def _bce(x: Ball, y: Ball, weight: Ball | None = None, reduction: int = 1) -> Ball:
    """−y log x − (1 − y) log(1 − x), each logarithm at least −100."""
    logs = maximum(log(x), -100.0), maximum(log1p(neg(x)), -100.0)
    each = neg(add(mul(y, logs[0]), mul(sub(1.0, y), logs[1])))
    return _reduced(each if weight is None else mul(weight, each), reduction)


def _bce_backward(grad: Ball, x: Ball, y: Ball, weight: Ball | None = None, reduction: int = 1) -> Ball:
    """(x − y)/max(x(1 − x), 10⁻¹²), as ATen defines it."""
    variation = mul(x, sub(1.0, x))
    slope = div(sub(x, y), maximum(variation, Ball(torch.tensor(1e-12).double(), torch.tensor(1e-25).double())))
    return mul(_shared(grad, slope, reduction), slope if weight is None else mul(weight, slope))


def _class_weights(x: Ball, target: Tensor, weight: Ball | None, ignored: int) -> tuple[Tensor, Ball]:
    """Return the class of each row and its weight, which is 0 for the ignored class."""
    is_used = target != ignored
    row = torch.where(is_used, target, 0)
    weights = point(torch.ones(row.shape)) if weight is None else weight.map(lambda t: t.expand(weight.shape)[row])
    return row, choose(is_used, weights, 0.0)


def _nll(x: Ball, target: Tensor, weight: Ball | None, reduction: int, ignored: int) -> tuple[Ball, Ball]:
    """−Σ weight·x[class]; for the mean, divided by the sum of the weights."""
    row, each = _class_weights(x, target, weight, ignored)
    axis = x.mid.dim() - 1 if x.mid.dim() < 3 else 1
    picked = x.map(lambda t: t.expand(x.shape).gather(axis, row.unsqueeze(axis)).squeeze(axis))
    loss, weights = neg(mul(each, picked)), total(each)
    if reduction == 0:
        return loss, ball(0.0)
    return total(loss) if reduction == 2 else div(total(loss), weights), weights


def _nll_backward(
    grad: Ball, x: Ball, target: Tensor, weight: Ball | None, reduction: int, ignored: int, total_weight: Ball
) -> Ball:
    row, each = _class_weights(x, target, weight, ignored)
    axis = x.mid.dim() - 1 if x.mid.dim() < 3 else 1
    share = div(grad, total_weight) if reduction == 1 else grad
    value = neg(mul(share, each))
    zeros = torch.zeros(x.shape, dtype=torch.float64)
    return value.map(lambda t: zeros.scatter(axis, row.unsqueeze(axis), t.expand(row.shape).unsqueeze(axis)))


def _axes(x: Ball, shape: list[int]) -> list[int]:
    return list(range(x.mid.dim() - len(shape), x.mid.dim()))


def _layer_norm(x: Ball, shape: list[int], weight: Any, bias: Any, eps: float) -> tuple[Ball, Ball, Ball]:
    """(x − mean)/√(variance + ε), times the weight, plus the bias."""
    axes = _axes(x, shape)
    middle = mean(x, axes, True)
    scale = div(1.0, sqrt(add(variance(x, axes, correction=0, keepdim=True), eps)))
    normalised = mul(sub(x, middle), scale)
    normalised = normalised if weight is None else mul(normalised, weight)
    return normalised if bias is None else add(normalised, bias), middle, scale


def _layer_norm_backward(
    grad: Ball, x: Ball, shape: list[int], middle: Ball, scale: Ball, weight: Any, bias: Any, mask: list[bool]
) -> tuple[Ball | None, Ball | None, Ball | None]:
    """Derivative by x: scale·(g − mean g − y·mean(gy)) with g = grad·weight and y = (x − mean)·scale."""
    axes = _axes(x, shape)
    outside = [i for i in range(x.mid.dim()) if i not in axes]
    y = mul(sub(x, middle), scale)
    g = grad if weight is None else mul(grad, weight)
    by_x = mul(scale, sub(sub(g, mean(g, axes, True)), mul(y, mean(mul(g, y), axes, True))))
    gy = mul(grad, y)
    return (
        by_x if mask[0] else None,
        (total(gy, outside) if outside else gy) if mask[1] else None,
        (total(grad, outside) if outside else grad) if mask[2] else None,
    )


def _logaddexp(a: Real, b: Real) -> Ball:
    """log(e^a + e^b) = b + softplus(a − b)."""
    return add(b, softplus(sub(a, b)))


def _xlogy(a: Real, b: Real) -> Ball:
    """a log b, or 0 if a is exactly 0."""
    x, y = ball(a), ball(b)
    zero = (x.mid == 0) & (x.rad == 0)
    if not bool(((y.mid > y.rad) | zero).all()):
        raise Refusal("the argument of a logarithm may be 0 or less")
    return mul(x, log(choose(zero, math.e, y)))


RULES: dict[str, Callable[..., Any]] = {
    "softplus": _softplus,
    "softplus_backward": _softplus_backward,
    "log_sigmoid_forward": lambda x: (neg(softplus(neg(x))), None),
    "log_sigmoid_backward": lambda grad, x, buffer: mul(grad, sigmoid(neg(x))),
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "logaddexp": _logaddexp,
    "xlogy": _xlogy,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "mse_loss": _mse,
    "mse_loss_backward": _mse_backward,
    "huber_loss": _huber,
    "huber_loss_backward": _huber_backward,
    "smooth_l1_loss": _smooth_l1,
    "smooth_l1_loss_backward": _smooth_l1_backward,
    "binary_cross_entropy": _bce,
    "binary_cross_entropy_backward": _bce_backward,
    "nll_loss_forward": _nll,
    "nll_loss2d_forward": _nll,
    "nll_loss_backward": _nll_backward,
    "nll_loss2d_backward": _nll_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
}

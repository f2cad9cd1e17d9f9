"""Special rules of single operations: powers, losses, functions with a threshold or a kink, largest entries.

A rule returns None if the rules of another table apply, and declines arguments that no rule covers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure import chain as chains
from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY, Jet, power, soft_plus
from boundcheck.numerics.program.enclosure.elementwise import elementwise, elementwise_value
from boundcheck.numerics.program.enclosure.intervals import Interval, outward, point
from boundcheck.numerics.program.enclosure.linear import linear_value
from boundcheck.numerics.program.enclosure.linear_rules import divided, scaled, sum_of_two
from boundcheck.numerics.program.enclosure.log_sum_exp import log_sum_exp_value
from boundcheck.numerics.program.enclosure.piecewise import clamp, elu, huber, leaky_relu
from boundcheck.numerics.program.enclosure.product_rules import entrywise_product
from boundcheck.numerics.program.enclosure.value import Value
from boundcheck.numerics.program.recorded_program import Declined

CUT_OFF = "for softplus = log(1 + e^x), from which PyTorch's is 2e-9 away beyond its threshold"
EDGE = 1.001e-12  # distance from 0 and 1: PyTorch's binary_cross_entropy replaces a smaller x(1 − x) by 1e-12


def _power(x: Any, exponent: Any) -> Value | None:
    if isinstance(x, Value) and isinstance(exponent, int | float):
        if exponent == 1:
            return x
        if exponent < 0 and exponent == int(exponent):
            return elementwise(power(-exponent), elementwise(ELEMENTARY["reciprocal"], x))
        return elementwise(power(exponent), x)
    if isinstance(exponent, Value) and isinstance(x, int | float) and x > 0:
        raise Declined("aten.pow with an exponent that varies; write exp(log(base) * exponent)")
    raise Declined("aten.pow with these arguments")


def _log_sum_exp(x: Value, dims: Any, keepdim: bool = False) -> Value:
    listed = [dims] if isinstance(dims, int) else list(dims)
    if len(listed) != 1:
        raise Declined("aten.logsumexp over several axes")
    dim = listed[0] % max(1, len(x.shape))
    last = len(x.shape) - 1
    if dim != last:
        x = linear_value([x], lambda t: t.movedim(dim, -1), lambda t: t.movedim(dim, -1), None, moves=True, terms=1)
    result = log_sum_exp_value(x)
    if keepdim:
        return linear_value([result], lambda t: t.unsqueeze(dim), lambda t: t.unsqueeze(dim), None, moves=True, terms=1)
    return result


def _quotient(x: Any, y: Any, rounding_mode: Any = None) -> Value | None:
    """Return the quotient of two tensors that both vary."""
    if rounding_mode is not None:
        raise Declined("aten.div with a rounding mode")
    if isinstance(x, Value) and isinstance(y, Value):
        return entrywise_product(x, elementwise(ELEMENTARY["reciprocal"], y))
    return None


def _soft_plus(x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """Return log(1 + e^(βx))/β. PyTorch computes it only up to βx = `threshold`, and returns x beyond it."""
    if _is_beyond(x.centre, beta, threshold):
        raise Declined(
            f"aten.softplus beyond its threshold of {threshold:g} at the centre of the ball, where PyTorch returns its "
            "argument; write -logsigmoid(-x)"
        )
    if threshold < 20 and is_cut_off(x, beta, threshold):
        raise Declined(f"aten.softplus crosses its threshold of {threshold:g}, where it jumps; write -logsigmoid(-x)")
    return elementwise(soft_plus(float(beta)), x)


def is_cut_off(x: Value, beta: float = 1, threshold: float = 20) -> bool:
    """Return True if the argument of a softplus may be beyond its threshold somewhere on the ball."""
    return _is_beyond(x.box, beta, threshold)


def _is_beyond(x: Interval, beta: float, threshold: float) -> bool:
    return not bool((torch.maximum(x.lo * beta, x.hi * beta) <= threshold).all())  # β may be negative


def _bce(x: Any, y: Any, weight: Any = None, reduction: int = 1) -> Value:
    """Return −(y·log x + (1 − y)·log(1 − x)). Next to 0 and 1, PyTorch bounds the logarithms and the derivative."""
    if not isinstance(x, Value) or isinstance(y, Value) or isinstance(weight, Value):
        raise Declined("aten.binary_cross_entropy with a target or a weight that varies; write it with logarithms")
    if not bool(((x.box.lo > EDGE) & (x.box.hi < 1 - EDGE)).all()):
        raise Declined(
            "aten.binary_cross_entropy next to 0 or 1, where PyTorch cuts it off; use binary_cross_entropy_with_logits"
        )
    inner, one = chains.chain_of(x), torch.ones((), dtype=torch.float64)
    log, log_of_rest = (chains.applied(ELEMENTARY["log"], z) for z in (inner, chains.scaled(inner, -one, one)))
    share, rest = point(-y), outward(y - 1, y - 1)

    def jets(z: Interval) -> Jet:
        a, b, c, d = (share * p + rest * q for p, q in zip(log.jets(z), log_of_rest.jets(z), strict=True))
        return a, b, c, d

    loss = elementwise_value(chains.Chain(inner.base, jets, log.bent + log_of_rest.bent))
    return _mean_or_sum(loss if weight is None else scaled(loss, weight), reduction)


def _log_sigmoid(x: Value) -> list[Value]:
    value = elementwise(ELEMENTARY["log_sigmoid"], x)
    return [value, value]


def _leaky_relu(x: Value, negative_slope: float = 0.01) -> Value:
    return elementwise(leaky_relu(float(negative_slope)), x)


def _clamp(x: Value, min: Any = None, max: Any = None) -> Value:
    if not all(end is None or isinstance(end, int | float) for end in (min, max)):
        raise Declined("aten.clamp with ends that are tensors; write maximum and minimum")
    if min is not None and max is not None and min > max:
        raise Declined("aten.clamp with ends in the wrong order")
    return elementwise(clamp(min, max), x)


def _clamp_max(x: Value, max: Any) -> Value:
    return _clamp(x, None, max)


def _hard_tanh(x: Value, min_val: float = -1, max_val: float = 1) -> Value:
    return _clamp(x, min_val, max_val)


def _elu(x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    return elementwise(elu(alpha, scale, input_scale), x)


def _celu(x: Value, alpha: float = 1) -> Value:
    """Return elu with the input scale 1/α, whose slope is continuous. α must be a power of two, so 1/α is exact."""
    if math.frexp(alpha)[0] != 0.5:
        raise Declined(f"aten.celu with α = {alpha:g}, for which 1/α is rounded")
    return elementwise(elu(alpha, 1.0, 1 / alpha), x)


def _index_add(x: Any, dim: int, index: Any, source: Any, alpha: float = 1) -> None:
    """Decline a factor other than 1. Otherwise, index_add is a sum with coefficients 0 and 1."""
    if alpha != 1:
        raise Declined(f"aten.index_add with alpha = {alpha:g}; multiply the source by it")


def _constant_pad(x: Any, pad: Any, value: float = 0) -> None:
    """Decline padding with numbers other than 0. Padding with zeros is a move of numbers."""
    if value != 0:
        raise Declined(f"aten.constant_pad_nd with the number {value:g}")


def _largest(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(x, dim, keepdim, 1.0)


def _least(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(x, dim, keepdim, -1.0)


def _extreme(x: Value, dim: Any, keepdim: bool, sign: float) -> Value:
    """Return the largest or least entry, which must be at the same place for every w of the ball."""
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    if len(dims) > 1:
        raise Declined("aten.amax over several axes; take one after the other")
    over = dims[0] % max(1, len(x.shape)) if dims else 0

    def shaped(t: Tensor) -> Tensor:
        return t if dims else t.reshape(-1)

    box = x.box if sign > 0 else -x.box
    lo, hi = shaped(box.lo), shaped(box.hi)
    best = shaped(sign * x.centre.mid).argmax(over, keepdim=True)
    others = hi.scatter(over, best, -torch.inf).amax(over, keepdim=True)
    if not bool((lo.gather(over, best) > others).all()):
        raise Declined("the largest or least entry changes on the ball, which is a kink; logsumexp is smooth")

    def entry_at_best(t: Tensor) -> Tensor:
        entry = shaped(t).gather(over, best)
        return entry if keepdim and dims else entry.squeeze(over)

    return linear_value([x], entry_at_best, entry_at_best, None, moves=True, terms=1)


def _huber(x: Any, y: Any, reduction: int = 1, delta: float = 1.0) -> Value:
    return _mean_or_sum(elementwise(huber(float(delta)), sum_of_two(x, y, (1.0, -1.0))), reduction)


def _smooth_l1(x: Any, y: Any, reduction: int = 1, beta: float = 1.0) -> Value:
    value = elementwise(huber(float(beta)), sum_of_two(x, y, (1.0, -1.0)))
    return _mean_or_sum(divided(value, torch.tensor(float(beta), dtype=torch.float64)), reduction)


def _mean_or_sum(x: Value, reduction: int) -> Value:
    if reduction == 0:
        return x
    n = x.box.lo.numel()
    function: Callable[[Tensor], Tensor] = torch.mean if reduction == 1 else torch.sum
    return linear_value([x], function, function, None, moves=False, terms=n)


SPECIAL: dict[str, Callable[..., Any]] = {
    "pow": _power,
    "logsumexp": _log_sum_exp,
    "div": _quotient,
    "softplus": _soft_plus,
    "log_sigmoid_forward": _log_sigmoid,
    "binary_cross_entropy": _bce,
    "huber_loss": _huber,
    "smooth_l1_loss": _smooth_l1,
    "leaky_relu": _leaky_relu,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp_max,
    "hardtanh": _hard_tanh,
    "elu": _elu,
    "celu": _celu,
    "index_add": _index_add,
    "constant_pad_nd": _constant_pad,
    "amax": _largest,
    "amin": _least,
}

"""Piecewise operations: comparisons, signs, largest entries, rounding to integers.

A condition must have the same answer for the whole ball; otherwise it is refused. Values such as |x| or max(x, y) need
no decision, because they change by no more than their arguments.

Where numbers are exact, a condition is sure at its edge too, as x > 0 is for x = 0. Values are then proved. What is
differentiated has a kink there, so within `edges_refused` such a condition is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import unfold

from boundcheck.numerics.program.rounding_rules.ball import Ball, Real, Refusal, ball, choose, mul, sub
from boundcheck.numerics.program.rounding_rules.elementwise import exp, expm1

_refuses_edges: ContextVar[bool] = ContextVar("refuses edges", default=False)


@contextmanager
def edges_refused() -> Iterator[None]:
    """Refuse conditions at their edge in this context, for proofs of derivatives."""
    token = _refuses_edges.set(True)
    try:
        yield
    finally:
        _refuses_edges.reset(token)


def decide(yes: Tensor, no: Tensor) -> Tensor:
    """Return the condition `yes` if every entry is certainly true (`yes`) or certainly false (`no`); else refuse."""
    if not bool((yes | no).all()):
        raise Refusal("rounding alone decides a comparison")
    return yes


def positive(x: Ball) -> Tensor:
    """Return the condition x > 0."""
    _refuse_edge(x)
    return decide(x.mid > x.rad, x.mid <= -x.rad)


def zero(x: Ball) -> Tensor:
    """Return the condition x = 0."""
    _refuse_edge(x)
    return decide((x.mid == 0) & (x.rad == 0), x.mid.abs() > x.rad)


def _refuse_edge(x: Ball) -> None:
    if _refuses_edges.get() and bool((x.mid.abs() <= x.rad).any()):
        raise Refusal("a comparison at its edge, where what depends on it has a kink")


def _gt(a: Real, b: Real) -> Tensor:
    return positive(sub(a, b))


def _le(a: Real, b: Real) -> Tensor:
    return ~positive(sub(a, b))


def _eq(a: Real, b: Real) -> Tensor:
    return zero(sub(a, b))


def sign(x: Ball) -> Ball:
    """Return the sign: −1, 0 or 1.

    Within `edges_refused`, a sign of 0 in a backward pass is the derivative of |x| at its kink. It is then any number
    from −1 to 1, which a factor 0 cancels. In a forward pass the sign jumps there, and is refused.
    """
    if _refuses_edges.get() and torch._C._current_autograd_node() is not None:
        edge = x.mid.abs() <= x.rad
        return Ball(torch.where(edge, 0.0, x.mid.sign()), edge.to(x.mid))
    _refuse_edge(x)
    sure = decide((x.mid.abs() > x.rad) | ((x.mid == 0) & (x.rad == 0)), torch.zeros_like(x.mid, dtype=torch.bool))
    return ball(torch.where(sure, x.mid.sign(), 0.0))


def maximum(a: Real, b: Real) -> Ball:
    """The larger of two numbers."""
    x, y = ball(a), ball(b)
    mid = torch.maximum(x.mid, y.mid)
    first, second = x.mid - x.rad > y.mid + y.rad, y.mid - y.rad > x.mid + x.rad
    rad = torch.where(first, x.rad, torch.where(second, y.rad, torch.maximum(x.rad, y.rad)))
    return Ball(mid, rad)


def minimum(a: Real, b: Real) -> Ball:
    """The smaller of two numbers."""
    x, y = ball(a), ball(b)
    larger = maximum(Ball(-x.mid, x.rad), Ball(-y.mid, y.rad))
    return Ball(-larger.mid, larger.rad)


def clamp(x: Ball, min: Real | None = None, max: Real | None = None) -> Ball:
    """Clamp x to an interval."""
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


def _rounding_to_integers(rounded: Callable[[Tensor], Tensor]) -> Callable[[Ball], Ball]:
    """Return the rule of a nondecreasing function that rounds to integers."""

    def rule(x: Ball) -> Ball:
        value = rounded(x.mid)
        far = torch.tensor(float("inf"), dtype=torch.float64)
        low, high = torch.nextafter(x.mid - x.rad, -far), torch.nextafter(x.mid + x.rad, far)
        sure = (x.rad == 0) | ((rounded(low) == value) & (rounded(high) == value))
        decide(sure, torch.zeros_like(sure))
        return ball(value)

    return rule


def _extreme(x: Ball, dim: list[int] | int | None = None, keepdim: bool = False) -> Ball:
    """Return the largest entry along some axes, which changes by no more than the entries."""
    axes = tuple(range(x.mid.dim())) if dim is None or dim == [] else dim
    return Ball(x.mid.amax(axes, keepdim), x.rad.amax(axes, keepdim))


def _mirrored(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule for smallest entries, from a rule for largest entries applied to −x."""

    def negated(x: Ball, *args: Any, **kwargs: Any) -> Any:
        result = rule(Ball(-x.mid, x.rad), *args, **kwargs)
        if isinstance(result, tuple):
            return Ball(-result[0].mid, result[0].rad), result[1]
        return Ball(-result.mid, result.rad) if isinstance(result, Ball) else result

    return negated


def _largest(x: Ball, dim: int, keepdim: bool = False) -> tuple[Ball, Tensor]:
    """Return the largest entry along an axis and its index, which must be certain."""
    index = x.mid.argmax(dim, keepdim=True)
    best = Ball(x.mid.gather(dim, index), x.rad.expand(x.shape).gather(dim, index))
    itself = torch.zeros_like(x.mid, dtype=torch.bool).scatter(dim, index, True)
    positive(choose(itself, 1.0, sub(best, x)))
    return best.map(lambda t: t if keepdim else t.squeeze(dim)), index if keepdim else index.squeeze(dim)


def _where_largest(x: Ball, dim: int | None = None, keepdim: bool = False) -> Tensor:
    if dim is None:
        return _largest(x.map(lambda t: t.reshape(-1)), 0)[1].reshape([1] * x.mid.dim() if keepdim else [])
    return _largest(x, dim, keepdim)[1]


def _sort(x: Ball, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> tuple[Ball, Tensor]:
    """Sort entries. The order must be certain, so no two entries may be equal."""
    if x.mid.dim() == 0:
        return x, torch.zeros((), dtype=torch.int64)
    index = x.mid.argsort(dim, descending)
    values = Ball(x.mid.gather(dim, index), x.rad.expand(x.shape).gather(dim, index))
    n = x.shape[dim]
    gaps = sub(values.map(lambda t: t.narrow(dim, 1, n - 1)), values.map(lambda t: t.narrow(dim, 0, n - 1)))
    if n > 1 and not bool(positive(mul(gaps, -1.0 if descending else 1.0)).all()):
        raise Refusal("equal entries are sorted")
    return values, index


def _topk(x: Ball, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Ball, Tensor]:
    if not sorted:
        raise Refusal("topk without order")
    values, index = _sort(x, dim, largest)
    return values.map(lambda t: t.narrow(dim, 0, k)), index.narrow(dim, 0, k)


def _max_pool2d(
    x: Ball, kernel: list[int], stride: list[int] = [], padding: list[int] = [0], dilation: list[int] = [1],  # noqa: B006
    ceil_mode: bool = False,
) -> tuple[Ball, Tensor]:  # fmt: skip
    """Return the largest entry of each window and its index, which must be certain.

    Among equal exact entries, it is the first. The windows are laid out in rows, with the place of each entry.
    """
    if ceil_mode:
        raise Refusal("max_pool2d with ceil_mode")
    batched = x if x.mid.dim() == 4 else x.map(lambda t: t[None])
    mid, index = torch.nn.functional.max_pool2d(
        batched.mid, kernel, stride or kernel, padding, dilation, ceil_mode, return_indices=True
    )
    shape, planes = batched.shape, (-1, 1, *batched.shape[2:])
    where = torch.arange(1, 1 + shape[2] * shape[3], dtype=torch.float64).view(1, 1, *shape[2:])  # 0 is padding
    sides = {"kernel_size": kernel, "stride": stride or kernel, "padding": padding, "dilation": dilation}
    layout = {key: tuple(side) * (1 if len(side) == 2 else 2) for key, side in sides.items()}
    window, rad, place = (unfold(t.reshape(planes), **layout) for t in (batched.mid, batched.rad, where))
    is_best = place == index.reshape(window.shape[0], 1, -1) + 1
    best = Ball(*((t * is_best).sum(1, keepdim=True) for t in (window, rad)))
    gap = sub(best, Ball(window, rad))
    later = place > index.reshape(window.shape[0], 1, -1) + 1
    sure = is_best | (place == 0) | (gap.mid > gap.rad) | (later & (gap.mid == 0) & (gap.rad == 0))
    decide(sure, torch.zeros_like(sure))
    pooled = Ball(mid, best.rad.reshape(mid.shape))
    return (pooled, index) if x.mid.dim() == 4 else (pooled.map(lambda t: t[0]), index[0])


def _max(x: Ball, *args: Any, **kwargs: Any) -> Any:
    """max() of all entries, max(dim) or max(other)."""
    if not args and not kwargs:
        return _extreme(x)
    if args and isinstance(args[0], Ball):
        return maximum(x, args[0])
    return _largest(x, *args, **kwargs)


def _leaky(x: Ball, slope: Real = 0.01) -> Ball:
    return choose(positive(x), x, mul(x, slope))


def _leaky_backward(grad: Ball, x: Ball, slope: Real, is_result: bool) -> Ball:
    return choose(positive(x), grad, mul(grad, slope))


def _elu(x: Ball, alpha: Real = 1.0, scale: Real = 1.0, input_scale: Real = 1.0) -> Ball:
    below = mul(mul(alpha, scale), expm1(minimum(mul(x, input_scale), 0.0)))
    return choose(positive(x), mul(x, scale), below)


def _elu_backward(grad: Ball, alpha: Real, scale: Real, input_scale: Real, is_result: bool, x: Ball) -> Ball:
    if is_result:
        raise Refusal("elu in place")
    below = mul(mul(mul(alpha, scale), input_scale), exp(minimum(mul(x, input_scale), 0.0)))
    return mul(grad, choose(positive(x), scale, below))


def _hardtanh_backward(grad: Ball, x: Ball, low: Real, high: Real) -> Ball:
    return choose(positive(sub(x, low)) & positive(sub(high, x)), grad, 0.0)


def _min(x: Ball, *args: Any, **kwargs: Any) -> Any:
    if args and isinstance(args[0], Ball):
        return minimum(x, args[0])
    return _mirrored(_max)(x, *args, **kwargs)


RULES: dict[str, Callable[..., Any]] = {
    "gt": _gt,
    "le": _le,
    "lt": lambda a, b: _gt(b, a),
    "ge": lambda a, b: _le(b, a),
    "eq": _eq,
    "ne": lambda a, b: ~_eq(a, b),
    "sign": sign,
    "sgn": sign,
    "abs": lambda x: Ball(x.mid.abs(), x.rad),
    "relu": lambda x: maximum(x, 0.0),
    "threshold_backward": lambda grad, x, threshold: choose(_gt(x, threshold), grad, 0.0),
    "leaky_relu": _leaky,
    "leaky_relu_backward": _leaky_backward,
    "elu": _elu,
    "elu_backward": _elu_backward,
    "maximum": maximum,
    "minimum": minimum,
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": lambda x, max: clamp(x, None, max),
    "hardtanh": lambda x, low=-1, high=1: clamp(x, low, high),
    "hardtanh_backward": _hardtanh_backward,
    "floor": _rounding_to_integers(torch.floor),
    "ceil": _rounding_to_integers(torch.ceil),
    "trunc": _rounding_to_integers(torch.trunc),
    "round": _rounding_to_integers(torch.round),
    "amax": _extreme,
    "amin": _mirrored(_extreme),
    "max": _max,
    "min": _min,
    "argmax": _where_largest,
    "argmin": _mirrored(_where_largest),
    "sort": _sort,
    "topk": _topk,
    "max_pool2d_with_indices": _max_pool2d,
    "where": choose,
    "isnan": lambda x: torch.isnan(x.mid),
    "isinf": lambda x: torch.isinf(x.mid),
    "logical_not": zero,
}

"""Operations that move entries, and sums of entries.

Every entry of the result of a move is an entry of an input or a fixed number, so a move acts on midpoints and radii in
the same way. A sum f adds entries with coefficient 1. The error of f(mid) is at most f(rad) + γ_n f(|mid|), where n is
f of ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from boundcheck.numerics.program.rounding_rules.ball import (
    TINY,
    Ball,
    Refusal,
    ball,
    choose,
    div,
    gamma,
    mul,
    point,
    sub,
    total,
    up,
)
from boundcheck.numerics.program.rounding_rules.decisions import RULES as DECISIONS
from boundcheck.numerics.program.rounding_rules.elementwise import sqrt

aten = torch.ops.aten

# operations that only move entries, or put zeros between them
MOVES = (
    "clone", "cat", "stack", "index", "index_select", "gather", "select_backward", "slice_backward", "select_scatter",
    "slice_scatter", "diagonal_scatter", "diagonal_backward", "flip", "roll", "repeat", "tril", "triu", "diag_embed",
    "masked_select", "take", "constant_pad_nd", "embedding", "permute_copy", "view_copy", "expand_copy",
    "alias_copy", "squeeze_copy", "unsqueeze_copy", "t_copy", "transpose_copy", "slice_copy", "select_copy",
    "repeat_interleave", "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d",
    "reflection_pad2d", "replication_pad1d", "replication_pad2d", "scatter", "_unsafe_view",
    "_unsafe_index", "masked_scatter", "im2col", "unfold_copy", "lift_fresh_copy",
)  # fmt: skip

# operations that add entries with coefficient 1
SUMS = (
    "index_add", "scatter_add", "index_put", "embedding_dense_backward", "unfold_backward", "col2im", "trace", "cumsum",
    "_unsafe_index_put", "max_pool2d_with_indices_backward",
)  # fmt: skip


def _parts(args: Any, part_of: Callable[[Ball], Tensor]) -> Any:
    return tree_map(lambda x: part_of(x) if isinstance(x, Ball) else x, args)


def _overload(name: str, args: Any, kwargs: Any) -> Any:
    if unknown := set(kwargs) - {"memory_format", "dtype", "output_size"}:
        raise Refusal(f"the argument {min(unknown)}")
    return getattr(aten, name)(*args)


def _move(name: str) -> Callable[..., Ball]:
    def rule(*args: Any, **kwargs: Any) -> Ball:
        radius = _radius_args(name, args)
        mid = _overload(name, _parts(args, lambda x: x.mid), kwargs)
        return Ball(mid, _overload(name, _parts(radius, lambda x: x.rad), kwargs))

    return rule


def _radius_args(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments for the radii. Numbers that the operation inserts are exact and have radius 0."""
    if name == "constant_pad_nd":
        return args[:2]
    if name == "scatter":
        if any(isinstance(x, str) for x in args):
            raise Refusal("scatter with a reduction")
        return tuple(0.0 if i == 3 and isinstance(x, int | float) else x for i, x in enumerate(args))
    return args


def _sum_of(name: str) -> Callable[..., Ball]:
    def rule(*args: Any, **kwargs: Any) -> Ball:
        balls = [x for x in args if isinstance(x, Ball)]
        mid = _overload(name, _parts(args, lambda x: x.mid), kwargs)
        size = _overload(name, _parts(args, lambda x: x.mid.abs()), kwargs)
        rad = _overload(name, _parts(args, lambda x: x.rad.contiguous()), kwargs)
        count = _overload(name, _parts(args, lambda x: torch.ones_like(x.mid)), kwargs)
        n = int(count.max()) if balls and count.numel() else 0
        return Ball(mid, up(rad + (gamma(n) * size if n > 1 else 0.0), n))

    return rule


def _scaled(name: str) -> Callable[..., Ball]:
    """Rule for index_add with a factor: multiply the source first."""
    plain = _sum_of(name)

    def rule(x: Any, dim: int, index: Tensor, source: Any, *, alpha: float = 1) -> Ball:
        return plain(ball(x), dim, index, ball(source) if alpha == 1 else mul(source, alpha))

    return rule


def mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Ball:
    """Mean over some axes: the sum divided by the number of terms."""
    summed = total(ball(x), dim, keepdim)
    return div(summed, float(_terms(x, summed)))


def _terms(x: Ball, summed: Ball) -> int:
    return x.mid.numel() // max(1, summed.mid.numel())


def variance(x: Ball, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Ball:
    """Σ(x − mean)²/(n − correction)."""
    deviation = sub(x, mean(x, dim, True))
    summed = total(mul(deviation, deviation), dim, keepdim)
    return div(summed, float(_terms(x, summed) - (1 if correction is None else correction)))


def _prod(x: Ball, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Ball:
    flat = x.map(lambda t: t.reshape(-1)) if dim is None else x
    products = cumprod(flat, 0 if dim is None else dim)
    axis = 0 if dim is None else dim
    last = products.map(lambda t: t.narrow(axis, t.shape[axis] - 1, 1))
    return last.map(lambda t: t.reshape(()) if dim is None else t if keepdim else t.squeeze(dim))


def cumprod(x: Ball, dim: int, *, dtype: Any = None) -> Ball:
    """Cumulative products along an axis, multiplied one after the other."""
    n = x.shape[dim] if x.mid.dim() else 1
    if n > 256 or n == 0:
        raise Refusal(f"a product of {n} numbers")
    if not x.mid.dim():
        return x
    parts = [x.map(lambda t: t.select(dim, 0))]
    for i in range(1, n):
        parts.append(mul(parts[-1], x.map(lambda t, i=i: t.select(dim, i))))  # type: ignore[misc]
    return Ball(torch.stack([p.mid for p in parts], dim), torch.stack([p.rad.expand(p.shape) for p in parts], dim))


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Ball:
    x, values = ball(x), ball(values)
    if accumulate:
        return _sum_of("index_put")(x, indices, values, True)
    return _move("index_put")(x, indices, values)


def _fill(x: Any, value: Any) -> Ball:
    x, value = ball(x), ball(value)
    return Ball(value.mid.expand(x.shape), value.rad.expand(x.shape))


def _copy(x: Any, source: Any, non_blocking: bool = False) -> Ball:
    return _fill(x, source)


def _pool_backward(grad: Ball, x: Ball, *rest: Any) -> Ball:
    """Add the gradient of each window at the index of its largest entry. x only gives the shape."""
    grads = [aten.max_pool2d_with_indices_backward(g, x.mid, *rest) for g in (grad.mid, grad.mid.abs(), grad.rad)]
    n = int(aten.max_pool2d_with_indices_backward(torch.ones_like(grad.mid), x.mid, *rest).max())
    return Ball(grads[0], up(grads[2] + (gamma(n) * grads[1] if n > 1 else 0.0), n))


def _average(name: str) -> Callable[..., Ball]:
    """Return the rule for means over windows or their transpose.

    The coefficients are not negative, and each adds one rounding.
    """

    def rule(x: Ball, *rest: Any) -> Ball:
        shape = [r.mid if isinstance(r, Ball) else r for r in rest]
        parts = [getattr(aten, name)(t.expand(x.shape).contiguous(), *shape) for t in (x.mid, x.mid.abs(), x.rad)]
        n = 4 + math.prod(x.shape[-2:])
        return Ball(parts[0], up(parts[2] + gamma(n) * parts[1], n) + n * TINY)

    return rule


def _embedding_backward(grad: Ball, index: Tensor, rows: int, padding: int, scale: bool) -> Ball:
    if scale:
        raise Refusal("an embedding with scale_grad_by_freq")
    return _sum_of("embedding_dense_backward")(grad, index, rows, padding, scale)


def vector_norm(x: Ball, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Ball:
    """Norm with p = 1, 2 or ∞."""
    if p is None or p == 2:
        return sqrt(total(mul(x, x), dim, keepdim))
    size = Ball(x.mid.abs(), x.rad)
    if p == 1:
        return total(size, dim, keepdim)
    if p == float("inf"):
        axes = tuple(range(x.mid.dim())) if dim is None else dim
        return Ball(size.mid.amax(axes, keepdim), size.rad.amax(axes, keepdim))
    raise Refusal(f"a norm with p={p}")


def _row_differences(x: Ball, y: Ball) -> Ball:
    """All differences of a row of x and a row of y."""
    return sub(x.map(lambda t: t.expand(x.shape).unsqueeze(-2)), y.map(lambda t: t.expand(y.shape).unsqueeze(-3)))


def _distances(x: Ball, y: Ball, p: float, mode: Any = None) -> Ball:
    """Distances of rows in the p-norm. The distance of exactly equal rows is exactly 0."""
    return vector_norm(_row_differences(x, y), p, -1)


def _distances_backward(grad: Ball, x: Ball, y: Ball, p: float, distance: Ball) -> Ball:
    """Σ grad·(x − y)/distance over the rows of y, without those at distance 0."""
    if p != 2:
        raise Refusal(f"distances with p={p}")
    zero = (distance.mid == 0) & (distance.rad == 0)
    quotient = choose(zero, 0.0, div(grad, choose(zero, 1.0, distance)))
    return total(mul(quotient.map(lambda t: t.unsqueeze(-1)), _row_differences(x, y)), -2)


def _cast(x: Any, **options: Any) -> Any:
    """Cast to another dtype. Another precision keeps the same exact numbers; integers must be certain."""
    dtype = options.get("dtype")
    if dtype is None or dtype.is_floating_point:
        return ball(x)
    if dtype == torch.bool:
        return ~DECISIONS["logical_not"](x)
    return DECISIONS["trunc"](x).mid.to(dtype)


RULES: dict[str, Callable[..., Any]] = {name: _move(name) for name in MOVES} | {name: _sum_of(name) for name in SUMS}
RULES |= {
    "index_add": _scaled("index_add"),
    "index_put": _index_put,
    "_unsafe_index_put": _index_put,
    "_index_put_impl": lambda x, indices, values, accumulate=False, unsafe=False: _index_put(
        x, indices, values, accumulate
    ),
    "embedding_dense_backward": _embedding_backward,
    "max_pool2d_with_indices_backward": _pool_backward,
    "masked_fill": lambda x, mask, value: choose(mask, value, x),
    "fill": _fill,
    "zero": lambda x: point(torch.zeros_like(ball(x).mid)),
    "copy": _copy,
    "_to_copy": _cast,
    "sum": lambda x, dim=None, keepdim=False, dtype=None: total(ball(x), dim, keepdim),
    "mean": mean,
    "var": variance,
    "std": lambda x, *rest, **more: sqrt(variance(x, *rest, **more)),
    "var_mean": lambda x, dim=None, correction=None, keepdim=False: (
        variance(x, dim, correction=correction, keepdim=keepdim), mean(x, dim, keepdim),
    ),
    "prod": _prod,
    "cumprod": cumprod,
    "linalg_vector_norm": vector_norm,
    "norm": vector_norm,
    "avg_pool2d": _average("avg_pool2d"),
    "avg_pool2d_backward": _average("avg_pool2d_backward"),
    "_cdist_forward": _distances,
    "_cdist_backward": _distances_backward,
}  # fmt: skip

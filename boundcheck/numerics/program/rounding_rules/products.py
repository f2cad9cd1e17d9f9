"""Products of dense and sparse matrices, and convolutions.

Assumption: PyTorch's float64 convolution on the CPU is a sum of products in some order, not a fast transform.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.rounding_rules.ball import Ball, Refusal, add, ball, bilinear, matmul, mul, total

aten = torch.ops.aten


def _product(a: Any, b: Any) -> Ball:
    """Product ab, where a may be a sparse matrix of stored numbers."""
    if isinstance(a, Tensor):
        return _sparse_product(a, ball(b))
    if isinstance(b, Tensor):
        raise Refusal("a product with a sparse matrix on the right")
    return matmul(a, b)


def _sparse_product(a: Tensor, b: Ball) -> Ball:
    """Product of a sparse matrix and b, from the stored entries."""
    stored: Tensor = a.to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
    vector = b.mid.dim() == 1
    rows = b.map(lambda t: t.expand(b.shape)[:, None]) if vector else b
    result = _weighted_rows(stored.indices()[0], stored.indices()[1], stored.values(), a.shape[0], rows)
    return result.map(lambda t: t[:, 0]) if vector else result


def _weighted_rows(row: Tensor, column: Tensor, entries: Tensor, height: int, b: Ball) -> Ball:
    """Product of b with the matrix that has `entries` at (row, column): weighted sums of rows of b."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        return y.new_zeros(height, b.shape[1]).index_add_(0, row, x[:, None] * y.expand(b.shape)[column])

    longest = int(torch.bincount(row).max()) if len(row) else 0
    return bilinear(f, ball(entries), b, longest)


def _added(x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Ball:
    """βx + αab."""
    product = _product(a, b)
    product = product if alpha == 1 else mul(product, alpha)
    if beta == 0:
        return product
    return add(x if beta == 1 else mul(x, beta), product)


def _outer_added(x: Ball, a: Ball, b: Ball, *, beta: float = 1, alpha: float = 1) -> Ball:
    product = mul(a.map(lambda t: t[:, None]), b)
    return add(mul(x, beta), mul(product, alpha))


def _convolution(
    x: Ball, weight: Ball, bias: Ball | None, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Ball:  # fmt: skip
    def f(a: Tensor, b: Tensor) -> Tensor:
        out: Tensor = aten.convolution(a, b, None, stride, padding, dilation, transposed, output_padding, groups)
        return out

    result = bilinear(f, _contiguous(x), _contiguous(weight), _terms(weight))
    if bias is None:
        return result
    return add(result, bias.map(lambda t: t.view(-1, *[1] * (result.mid.dim() - 2))))


def _terms(weight: Ball) -> int:
    """Return an upper bound of the number of products in one entry, in the forward and the backward pass."""
    return max(weight.shape[:2]) * math.prod(weight.shape[2:])


def _contiguous(x: Ball) -> Ball:
    return x.map(lambda t: t.expand(x.shape).contiguous())


def _convolution_backward(
    grad: Ball, x: Ball, weight: Ball, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, mask: list[bool],
) -> tuple[Ball | None, Ball | None, Ball | None]:  # fmt: skip
    """The derivative by x is bilinear in (grad, weight), by the weight bilinear in (grad, x), by the bias a sum."""
    rest = (None, stride, padding, dilation, transposed, output_padding, groups)

    def by_x(g: Tensor, w: Tensor) -> Tensor:
        gradient: Tensor = aten.convolution_backward(g, torch.zeros_like(x.mid), w, *rest, [True, False, False])[0]
        return gradient

    def by_weight(g: Tensor, a: Tensor) -> Tensor:
        zero = torch.zeros_like(weight.mid)
        gradient: Tensor = aten.convolution_backward(g, a, zero, *rest, [False, True, False])[1]
        return gradient

    g, x, weight = _contiguous(grad), _contiguous(x), _contiguous(weight)
    places = x.shape[0] * max(math.prod(grad.shape[2:]), math.prod(x.shape[2:]))
    return (
        bilinear(by_x, g, weight, _terms(weight)) if mask[0] else None,
        bilinear(by_weight, g, x, places) if mask[1] else None,
        total(grad, [0, *range(2, grad.mid.dim())]) if mask[2] else None,
    )


def _embedding_bag(
    weight: Ball, index: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Ball | None = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> tuple[Ball, None, None, None]:  # fmt: skip
    """Weighted sums of rows of the table, which are a product with a sparse matrix."""
    if mode != 0 or padding_idx != -1 or per_sample_weights is None or not per_sample_weights.exact:
        raise Refusal("an embedding_bag that is not a weighted sum with stored weights")
    ends = offsets.long()
    if not include_last_offset:
        ends = torch.cat((ends, ends.new_tensor([len(index)])))
    row = torch.repeat_interleave(torch.arange(len(ends) - 1), ends.diff())
    return _weighted_rows(row, index.long(), per_sample_weights.mid, len(ends) - 1, weight), None, None, None


RULES: dict[str, Callable[..., Any]] = {
    "mm": _product,
    "mv": _product,
    "bmm": matmul,
    "dot": matmul,
    "vdot": matmul,
    "addmm": _added,
    "addmv": _added,
    "baddbmm": _added,
    "addr": _outer_added,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
}
SPARSE = ("mm", "mv", "addmm", "addmv")  # their first factor may be a sparse matrix of stored numbers

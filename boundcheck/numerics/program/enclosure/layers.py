"""PyTorch layers and fused operations, written in simpler operations that are recorded instead; see `expansions.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from boundcheck.numerics.program import batched_layers

MEAN, SUM = 1, 2  # ATen's numbers of reductions; 0 is none


def _layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    dims = tuple(range(-len(shape), 0))
    return batched_layers.layer_norm(x, shape, weight, bias, eps), *_moments(x, dims, eps)


def _group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> Any:
    return batched_layers.group_norm(x, group, weight, bias, eps), *_moments(x.reshape(N, group, -1), (-1,), eps)


def _batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, var: Tensor | None, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Normalise with stored statistics, or with those of the batch; no expansion if PyTorch updates stored ones."""
    if training and (mean is not None or var is not None):
        return NotImplemented
    if training:
        result = batched_layers.batch_norm(x, None, None, weight, bias, True, momentum, eps)
        return result, *_moments(x, (0, *range(2, x.dim())), eps)
    if mean is None or var is None:
        return NotImplemented
    shape, dtype = (1, -1, *[1] * (x.dim() - 2)), x.dtype
    y = (x - mean.reshape(shape)) * torch.rsqrt(var.reshape(shape).double() + eps)
    y = y if weight is None else y * weight.reshape(shape)
    y = y if bias is None else y + bias.reshape(shape)
    return y if y.dtype == dtype else torch.ops.aten._to_copy(y, dtype=dtype), x.new_empty(0), x.new_empty(0)


def _moments(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """Return the further results of a normalisation: the mean and 1/√(variance + ε)."""
    mean = x.mean(dims, keepdim=True)
    return mean, torch.rsqrt(((x - mean) ** 2).mean(dims, keepdim=True) + eps)


def _convolution(x: Tensor, kernel: Tensor, bias: Tensor | None, *rest: Any) -> Any:
    if bias is None:
        return NotImplemented
    return torch.ops.aten.convolution(x, kernel, None, *rest) + bias.reshape(1, -1, *[1] * (x.dim() - 2))


def _embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    """Look up rows of a table. With padding or scaled gradients, PyTorch has another derivative: no expansion."""
    if padding_idx >= 0 or scale_grad_by_freq or sparse:
        return NotImplemented
    return weight[indices]


def _constant_pad(x: Tensor, pad: list[int], value: float = 0) -> Any:
    if value == 0:
        return NotImplemented
    frame = torch.constant_pad_nd(torch.zeros(x.shape, dtype=torch.float64), pad, value)
    return torch.constant_pad_nd(x, pad, 0) + frame.to(x.dtype)


def _nll_loss_2d(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Any:
    if weight is not None or bool((target == ignore_index).any()):
        return NotImplemented
    picked = -x.gather(1, target[:, None])[:, 0]
    total = picked.mean() if reduction == MEAN else picked.sum() if reduction == SUM else picked
    return total, torch.tensor(float(target.numel()), dtype=x.dtype)


def _soft_margin_loss(x: Tensor, y: Tensor, reduction: int = MEAN) -> Tensor:
    loss = -logsigmoid(y * x)
    return loss.mean() if reduction == MEAN else loss.sum() if reduction == SUM else loss


def _safe_softmax(x: Tensor, dim: int, dtype: Any = None) -> Any:
    """Return softmax. PyTorch's result differs only for a row of −∞ alone."""
    return NotImplemented if dtype is not None else torch.exp(x - torch.logsumexp(x, dim, keepdim=True))


def _mish(x: Tensor) -> Tensor:
    return x * torch.tanh(-logsigmoid(-x))


def _glu(x: Tensor, dim: int = -1) -> Tensor:
    value, gate = x.chunk(2, dim)
    return value * torch.sigmoid(gate)


def _hypot(x: Tensor, y: Tensor) -> Tensor:
    return torch.sqrt(x**2 + y**2)


def _logit(x: Tensor, eps: float | None = None) -> Any:
    return NotImplemented if eps is not None else torch.log(x) - torch.log1p(-x)


def _addbmm(b: Tensor, x: Tensor, y: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    product = (x @ y).sum(0)
    product = product if alpha == 1 else alpha * product
    return (b if beta == 1 else beta * b) + product


LAYERS: dict[str, Callable[..., Any]] = {
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "native_batch_norm": _batch_norm,
    "convolution": _convolution,
    "embedding": _embedding,
    "constant_pad_nd": _constant_pad,
    "nll_loss2d_forward": _nll_loss_2d,
    "soft_margin_loss": _soft_margin_loss,
    "_safe_softmax": _safe_softmax,
    "mish": _mish,
    "glu": _glu,
    "hypot": _hypot,
    "logit": _logit,
    "addbmm": _addbmm,
}

"""PyTorch layers rewritten in elementary operations, so that nested `vmap` and second derivatives work.

In torch 2.13, the backward pass of the normalisation layers raises an error under `vmap` of `vmap`, and the fused
attention has no second derivative. The formulas come from PyTorch's manual, with ε inside the root. Values agree with
PyTorch's up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


def _standardised(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    gap = x - x.mean(dims, keepdim=True)
    return gap * torch.rsqrt((gap * gap).mean(dims, keepdim=True) + eps)


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Multiply each channel (the second axis) by a weight and add an offset to it."""
    shape = (1, -1, *[1] * (x.dim() - 2))
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """Compute (x − mean)/√(variance + ε) over the last axes."""
    result = _standardised(input, tuple(range(-len(normalized_shape), 0)), eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Compute (x − mean)/√(variance + ε) over each group of channels."""
    groups = _standardised(input.reshape(input.shape[0], num_groups, -1), (-1,), eps)
    return _scaled(groups.reshape(input.shape), weight, bias)


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Compute (x − mean)/√(variance + ε) over all axes except the channels; call PyTorch if statistics are stored."""
    if not training or running_mean is not None or running_var is not None:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return _scaled(_standardised(input, (0, *range(2, input.dim())), eps), weight, bias)


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Compute (x − mean)/√(variance + ε) per channel and example; call PyTorch if statistics are stored."""
    if not use_input_stats or running_mean is not None or running_var is not None:
        return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    return _scaled(_standardised(input, tuple(range(2, input.dim())), eps), weight, bias)


def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Compute softmax(QKᵀ/√d + mask) V; call PyTorch for dropout or shared heads."""
    if dropout_p > 0 or enable_gqa:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = factor * (query @ key.transpose(-2, -1))
    if is_causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device)
        scores = scores.masked_fill(~ones.tril(), -math.inf)
    if attn_mask is not None:
        is_boolean = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if is_boolean else scores + attn_mask
    return torch.softmax(scores, -1) @ value


def multi_head_attention(*args: Any, **kwargs: Any) -> Any:
    """Call PyTorch's multi-head attention without the fused kernels, since its inner attention cannot be replaced."""
    with sdpa_kernel(SDPBackend.MATH):
        return F.multi_head_attention_forward(*args, **kwargs)


LAYERS: dict[Callable[..., Any], Callable[..., Any]] = {
    F.layer_norm: layer_norm,
    torch.layer_norm: layer_norm,
    F.group_norm: group_norm,
    torch.group_norm: group_norm,
    F.batch_norm: batch_norm,
    F.instance_norm: instance_norm,
    F.scaled_dot_product_attention: attention,
    F.multi_head_attention_forward: multi_head_attention,
}

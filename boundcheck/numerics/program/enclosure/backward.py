"""PyTorch's backward operations, written in simpler operations, for functions that compute gradients.

A map such as w − α·grad(loss)(w) runs them. The argument `g` is the derivative by the result; see `expansions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

MEAN, SUM = 1, 2  # ATen's numbers of reductions; 0 is none


def _tanh(g: Tensor, y: Tensor) -> Tensor:
    return g * (1 - y * y)


def _sigmoid(g: Tensor, y: Tensor) -> Tensor:
    return g * (y * (1 - y))


def _log_sigmoid(g: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    return g * torch.sigmoid(-x)


def _softmax(g: Tensor, y: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    return y * (g - (g * y).sum(dim, keepdim=True))


def _log_softmax(g: Tensor, y: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    return g - torch.exp(y) * g.sum(dim, keepdim=True)


def _mse_loss(g: Tensor, x: Tensor, y: Tensor, reduction: int) -> Tensor:
    error = 2 * (x - y) * g
    return error / x.numel() if reduction == MEAN else error


def _nll_loss(
    g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, total: Tensor
) -> Any:
    if x.dim() != 2 or weight is not None or bool((target == ignore_index).any()):
        return NotImplemented
    classes = torch.nn.functional.one_hot(target, x.shape[1]).to(x.dtype)
    if reduction == MEAN:
        return -classes * g / len(target)
    return -classes * (g if reduction == SUM else g[:, None])


BACKWARD: dict[str, Callable[..., Any]] = {
    "tanh_backward": _tanh,
    "sigmoid_backward": _sigmoid,
    "log_sigmoid_backward": _log_sigmoid,
    "_softmax_backward_data": _softmax,
    "_log_softmax_backward_data": _log_softmax,
    "mse_loss_backward": _mse_loss,
    "nll_loss_backward": _nll_loss,
}

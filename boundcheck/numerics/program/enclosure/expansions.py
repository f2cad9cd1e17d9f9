"""Expansions: operations written in simpler operations, which are recorded instead.

Each function takes the arguments of the ATen operation and returns the same result in exact arithmetic. If it does not
cover the arguments, it returns `NotImplemented`, and the operation itself is recorded. Results of data alone are
recorded as constants, so they are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from boundcheck.numerics.program.enclosure.backward import BACKWARD
from boundcheck.numerics.program.enclosure.layers import LAYERS

MEAN, SUM = 1, 2  # ATen's numbers of reductions; 0 is none


def _reduced(x: Tensor, reduction: int) -> Tensor:
    return x.mean() if reduction == MEAN else x.sum() if reduction == SUM else x


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast to another dtype by the operation that has a rule."""
    cast: Tensor = x if x.dtype == dtype else torch.ops.aten._to_copy(x, dtype=dtype)
    return cast


def _log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return x - torch.logsumexp(x, dim, keepdim=True)


def _softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return torch.exp(x - torch.logsumexp(x, dim, keepdim=True))


def _nll_loss(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Any:
    if x.dim() != 2 or bool((target == ignore_index).any()):
        return NotImplemented
    picked = -x.gather(1, target[:, None])[:, 0]
    if weight is None:
        return _reduced(picked, reduction), torch.tensor(float(len(target)), dtype=x.dtype)
    weights = _as(weight, torch.float64)[target]
    weighted = picked * weights
    total = weighted.sum() / weights.sum() if reduction == MEAN else _reduced(weighted, reduction)
    return _as(total, x.dtype), _as(weights.sum(), x.dtype)


def _mse_loss(x: Tensor, y: Tensor, reduction: int = MEAN) -> Tensor:
    return _reduced((x - y) ** 2, reduction)


def _bce_with_logits(
    x: Tensor, y: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = MEAN
) -> Tensor:
    """−(p·y·log σ(x) + (1 − y)·log(1 − σ(x))), with log(1 − σ(x)) = log σ(x) − x."""
    y = _as(y, torch.float64)
    log = logsigmoid(x) if pos_weight is None else (1 - y + _as(pos_weight, torch.float64) * y) * logsigmoid(x)
    loss = (1 - y) * x - log
    return _as(_reduced(loss if weight is None else loss * weight, reduction), x.dtype)


def _addmm(b: Tensor, x: Tensor, y: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    product = x @ y
    product = product if alpha == 1 else alpha * product
    return (b if beta == 1 else beta * b) + product


def _addcmul(b: Tensor, x: Tensor, y: Tensor, value: float = 1) -> Tensor:
    return b + (x * y if value == 1 else value * (x * y))


def _silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "none":
        return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if ord not in (1, 2) or dtype is not None:
        return NotImplemented
    if ord == 1:
        return x.abs().sum() if dim is None else x.abs().sum(dim, keepdim=keepdim)
    squares = x**2
    return torch.sqrt(squares.sum() if dim is None else squares.sum(dim, keepdim=keepdim))


def _logaddexp(x: Tensor, y: Tensor) -> Tensor:
    return y - logsigmoid(y - x)


def _var(x: Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Tensor:
    dims = tuple(range(x.dim())) if dim is None else tuple(dim)
    count = math.prod(x.shape[d] for d in dims)
    squares = (x - x.mean(dims, keepdim=True)) ** 2
    return squares.sum(dims, keepdim=keepdim) / (count - (1 if correction is None else correction))


def _index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """Return x with other entries at some places. Two values for one place are not covered."""
    count = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    places = count[tuple(slice(None) if index is None else index for index in indices)]
    flat = values.expand(places.shape).reshape(-1)
    if accumulate:
        return torch.index_add(x.reshape(-1), 0, places.reshape(-1), flat).reshape(x.shape)
    if len(set(places.reshape(-1).tolist())) != places.numel():
        return NotImplemented
    source = count.reshape(-1).clone()
    source[places.reshape(-1)] = x.numel() + torch.arange(places.numel(), device=x.device)
    return torch.cat([x.reshape(-1), flat])[source].reshape(x.shape)


def _masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    number = value if isinstance(value, Tensor) else torch.tensor(value, dtype=x.dtype, device=x.device)
    return torch.where(mask, number, x)


def _maximum(x: Tensor, y: Tensor) -> Tensor:
    return y + torch.relu(x - y)


def _minimum(x: Tensor, y: Tensor) -> Tensor:
    return x - torch.relu(x - y)


def _max(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the largest entry and, with an axis, its index, for which there is no rule."""
    return x.amax() if dim is None else (x.amax(dim, keepdim), x.argmax(dim, keepdim))


def _min(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    return x.amin() if dim is None else (x.amin(dim, keepdim), x.argmin(dim, keepdim))


def _std(x: Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Tensor:
    return torch.sqrt(_var(x, dim, correction, keepdim))


def _var_mean(x: Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    dims = tuple(range(x.dim())) if dim is None else tuple(dim)
    return _var(x, dim, correction, keepdim), x.mean(dims, keepdim=keepdim)


def _xlogy(x: Tensor, y: Tensor) -> Tensor:
    """Return x·log y. If y may be 0 or less, the logarithm has no bound."""
    return x * torch.log(y)


def _lerp(x: Tensor, y: Tensor, weight: Any) -> Tensor:
    step: Tensor = weight * (y - x)
    return x + step


def _addcdiv(b: Tensor, x: Tensor, y: Tensor, value: float = 1) -> Tensor:
    return b + (x / y if value == 1 else value * (x / y))


EXPANSIONS: dict[str, Callable[..., Any]] = {
    **LAYERS,
    **BACKWARD,
    "maximum": _maximum,
    "minimum": _minimum,
    "max": _max,
    "min": _min,
    "std": _std,
    "var_mean": _var_mean,
    "xlogy": _xlogy,
    "lerp": _lerp,
    "addcdiv": _addcdiv,
    "_log_softmax": _log_softmax,
    "_softmax": _softmax,
    "nll_loss_forward": _nll_loss,
    "mse_loss": _mse_loss,
    "binary_cross_entropy_with_logits": _bce_with_logits,
    "addmm": _addmm,
    "addmv": _addmm,
    "baddbmm": _addmm,
    "addcmul": _addcmul,
    "silu": _silu,
    "gelu": _gelu,
    "linalg_vector_norm": _vector_norm,
    "logaddexp": _logaddexp,
    "var": _var,
    "index_put": _index_put,
    "masked_fill": _masked_fill,
}

"""Functions of one number with two derivatives, for gradients and Hessians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Derivatives = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]  # u ↦ φ(u), φ'(u), φ''(u)


@dataclass(frozen=True, eq=False)
class Function:
    """φ with its derivatives. `slope` computes φ' alone, faster if possible."""

    all: Derivatives
    slope: Callable[[Tensor], Tensor]


def _function(derivatives: Derivatives, slope: Callable[[Tensor], Tensor] | None = None) -> Function:
    return Function(derivatives, slope or (lambda u: derivatives(u)[1]))


def _logistic(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    s = torch.sigmoid(u)
    return -torch.nn.functional.logsigmoid(-u), s, s * (1 - s)


LOGISTIC = _function(_logistic, torch.sigmoid)  # log(1 + eᵘ)


def _exp(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    e = torch.exp(u)
    return e, e, e


def _tanh(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = torch.tanh(u)
    return y, 1 - y * y, -2 * y * (1 - y * y)


def _sigmoid(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    s = torch.sigmoid(u)
    return s, s * (1 - s), s * (1 - s) * (1 - 2 * s)


def _log(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.log(u), 1 / u, -1 / (u * u)


def _log1p(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.log1p(u), 1 / (1 + u), -1 / (1 + u) ** 2


def _sqrt(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    root = torch.sqrt(u)
    return root, 0.5 / root, -0.25 / (root * u)


def _sin(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    s, c = torch.sin(u), torch.cos(u)
    return s, c, -s


def _cos(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    s, c = torch.sin(u), torch.cos(u)
    return c, -s, -c


def _cosh(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    s, c = torch.sinh(u), torch.cosh(u)
    return c, s, c


def _sinh(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    s, c = torch.sinh(u), torch.cosh(u)
    return s, c, s


def _reciprocal(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r = 1 / u
    return r, -r * r, 2 * r * r * r


PLAIN = {
    "exp": _function(_exp, torch.exp),
    "tanh": _function(_tanh),
    "sigmoid": _function(_sigmoid),
    "log": _function(_log),
    "log1p": _function(_log1p),
    "sqrt": _function(_sqrt),
    "sin": _function(_sin, torch.cos),
    "cos": _function(_cos),
    "cosh": _function(_cosh, torch.sinh),
    "sinh": _function(_sinh, torch.cosh),
    "reciprocal": _function(_reciprocal),
}


def power(p: float) -> Function:
    """uᵖ."""

    def derivatives(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return u**p, p * u ** (p - 1), p * (p - 1) * u ** (p - 2)

    return _function(derivatives, lambda u: p * u ** (p - 1))


def softplus(beta: float = 1, threshold: float = 20) -> Function:
    """PyTorch's softplus: log(1 + e^(βu))/β, or u itself if βu is above the threshold."""

    def derivatives(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        s = torch.where(beta * u > threshold, 1, torch.sigmoid(beta * u))
        return torch.nn.functional.softplus(u, beta, threshold), s, beta * s * (1 - s)

    def slope(u: Tensor) -> Tensor:
        result: Tensor = torch.ops.aten.softplus_backward(torch.ones_like(u), u, beta, threshold)
        return result

    return _function(derivatives, slope)


def named(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Function | None:
    """Return the function of an ATen operation, from the arguments after the first; None if it is unknown."""
    if name in PLAIN and not args and not kwargs:
        return PLAIN[name]
    if name == "softplus" and not kwargs:
        return softplus(*args)
    if name == "pow" and len(args) == 1 and isinstance(args[0], int | float) and not isinstance(args[0], bool):
        return power(args[0]) if args[0] not in (0, 1) else None  # by this formula, their derivatives at 0 would be 0·∞
    return None

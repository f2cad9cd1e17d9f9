"""Shared parts of the problems of section 4.2: the cross-entropy and its gradient, a fixed step, samplers, sizes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.dynamics import Dynamics, by_name, constant
from boundcheck.problems.parts.synthetic_data import normal


def one_hot(y: Tensor, classes: int) -> Tensor:
    """Return classes as rows of the identity, in double precision."""
    return torch.eye(classes, dtype=torch.float64, device=y.device)[y]


def cross_entropy(Z: Tensor, Y: Tensor) -> Tensor:
    """Return the mean over the rows of −log softmax(Z)[class]; Y has the classes as rows of the identity."""
    return (Z.logsumexp(-1) - (Y * Z).sum(-1)).mean()


def cross_entropy_gradient(Z: Tensor, Y: Tensor) -> Tensor:
    """Return the gradient of `cross_entropy` in Z. The Hessian is ⪯ ½ I/n, as diag(s) − ssᵀ ⪯ ½ I for s = softmax."""
    return (Z.softmax(-1) - Y) / len(Y)


def fixed_step(dynamics: str, step_size: float, momentum: float) -> Dynamics:
    """Return gradient descent, or momentum with the same step."""
    if not 0 < step_size < float("inf"):
        raise InputError(f"step_size = {step_size} is not a step; give a positive number")
    if dynamics == "gradient-descent":
        if momentum != 0:
            raise InputError(f"momentum = {momentum} with gradient-descent, which has none; give dynamics='heavy-ball'")
        return by_name(dynamics, lambda ready: (1.0, 0.0))
    return constant(dynamics, step_size, step_size, momentum)


def around(centre: Tensor, spread: float) -> Callable[[torch.Generator], Tensor]:
    """Return a sampler of λ: `centre` plus normal numbers times `spread`."""
    return lambda generator: centre + spread * normal(generator, centre.numel())


def synthetic_size(name: str, value: int | None, default: int) -> int:
    """Return a size of synthetic data, or its default; InputError if it is below 2."""
    if value is not None and value < 2:
        raise InputError(f"{name} = {value} is too small for a problem; give a whole number from 2")
    return default if value is None else value


def only_synthetic(**sizes: int | None) -> None:
    """Raise InputError if a size is given that real data determine."""
    for name, value in sizes.items():
        if value is not None:
            raise InputError(f"{name} = {value} without synthetic=True; the data fix it, so leave {name} out")

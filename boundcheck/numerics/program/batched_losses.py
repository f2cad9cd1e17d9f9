"""Losses of PyTorch that fail under `vmap` of `vmap`, written with operations that do not.

`F.mse_loss`, `F.huber_loss` and `F.smooth_l1_loss` raise there if only one of their arguments is batched twice (seen in
torch 2.13). A user's function that calls one of them runs with the formula in its place; the values are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

Result = TypeVar("Result")


def _reduced(loss: Tensor, reduction: str, weight: Tensor | None = None) -> Tensor:
    if weight is not None:
        loss = loss * weight
        return loss.sum() / weight.expand_as(loss).sum() if reduction == "mean" else _reduced(loss, reduction)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _mse_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    return _reduced((input - target) ** 2, _old(size_average, reduce, reduction), weight)


def _huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    gap = input - target
    size = gap.abs()
    return _reduced(torch.where(size <= delta, gap * gap / 2, delta * (size - delta / 2)), reduction, weight)


def _smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:  # fmt: skip
    gap = input - target
    size = gap.abs()
    reduction = _old(size_average, reduce, reduction)
    if beta == 0:
        return _reduced(size, reduction)
    return _reduced(torch.where(size < beta, gap * gap / (2 * beta), size - beta / 2), reduction)


def _old(size_average: Any, reduce: Any, reduction: str) -> str:
    """The reduction that the two old arguments stand for."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


FORMULAS: dict[Callable[..., Any], Callable[..., Tensor]] = {
    F.mse_loss: _mse_loss,
    F.huber_loss: _huber_loss,
    F.smooth_l1_loss: _smooth_l1_loss,
}


_as_they_are: ContextVar[bool] = ContextVar("losses_as_they_are", default=False)


@contextmanager
def losses_as_they_are() -> Iterator[None]:
    """Runs the losses of PyTorch themselves, for whoever looks at the operations and batches nothing."""
    token = _as_they_are.set(True)
    try:
        yield
    finally:
        _as_they_are.reset(token)


@contextmanager
def losses_by_formula() -> Iterator[None]:
    """Runs the formulas again, inside of `losses_as_they_are`: for whoever batches what is recorded."""
    token = _as_they_are.set(False)
    try:
        with Formulas():
            yield
    finally:
        _as_they_are.reset(token)


class Formulas(TorchFunctionMode):
    """Runs the formulas in place of those losses; `used` says that there was one."""

    def __init__(self) -> None:
        super().__init__()
        self.used = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        formula = None if _as_they_are.get() else FORMULAS.get(func)
        if formula is None:
            return func(*args, **(kwargs or {}))
        self.used = True
        return formula(*args, **(kwargs or {}))


def batchable(function: Callable[..., Result]) -> Callable[..., Result]:
    """The same function, with formulas for those losses if its first call used any."""
    first = Formulas()
    tried = False

    def run(*arguments: Any) -> Result:
        nonlocal tried
        if tried and not first.used:
            return function(*arguments)
        with first if not tried else Formulas():
            result = function(*arguments)
        tried = True
        return result

    return run

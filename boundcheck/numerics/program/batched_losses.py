"""Losses of PyTorch that fail under `vmap` of `vmap`, written with operations that do not.

`F.mse_loss`, `F.huber_loss` and `F.smooth_l1_loss` raise there if only one of their arguments is batched twice (seen in
torch 2.13). A user's function that calls one of them, or a layer of `batched_layers.py`, runs with the formula in its
place; the values are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from boundcheck.numerics.program.batched_layers import LAYERS
from boundcheck.numerics.program.batched_strides import STRIDES

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


FORMULAS: dict[Callable[..., Any], Callable[..., Any]] = {
    F.mse_loss: _mse_loss,
    F.huber_loss: _huber_loss,
    F.smooth_l1_loss: _smooth_l1_loss,
    **LAYERS,
    **STRIDES,
}


_as_they_are: ContextVar[bool] = ContextVar("losses_as_they_are", default=False)


@contextmanager
def losses_as_they_are() -> Iterator[None]:
    """Runs the losses and layers of PyTorch themselves, for whoever looks at the operations and batches nothing."""
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
    """Runs the formulas in place of those losses and layers; `used` says that there was one.

    With an `anchor`, a 0 of the batch, new tensors of floating point belong to the batch from the start. A function may
    then write into them what belongs to the batch, which `vmap` refuses otherwise.
    """

    def __init__(self, anchor: Tensor | None = None) -> None:
        super().__init__()
        self.used = False
        self.anchor = anchor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        formula = None if _as_they_are.get() else FORMULAS.get(func)
        if formula is None:
            result = func(*args, **(kwargs or {}))
            if self.anchor is None or func not in NEW or not result.is_floating_point():
                return result
            return result + self.anchor.to(result)
        self.used = True
        return formula(*args, **(kwargs or {}))


NEW = frozenset((
    torch.zeros, torch.ones, torch.empty, torch.full, torch.eye, torch.zeros_like, torch.ones_like, torch.empty_like,
    torch.full_like, torch.clone, Tensor.clone, Tensor.new_zeros, Tensor.new_ones, Tensor.new_empty, Tensor.new_full,
))  # fmt: skip


def _anchor(arguments: Any) -> Tensor | None:
    """A 0 that belongs to every batch that one of the arguments belongs to."""
    given = [list(x.parameters()) if isinstance(x, nn.Module) else x for x in tree_leaves(arguments)]
    zeros = [x.detach().new_zeros(()) for x in tree_leaves(given) if isinstance(x, Tensor) and x.is_floating_point()]
    return torch.stack(zeros).sum() if zeros else None


def batchable(function: Callable[..., Result]) -> Callable[..., Result]:
    """The same function, with formulas for those losses and layers if its first call used any.

    If it writes into tensors of its own what belongs to a batch, they belong to the batch too from then on.
    """
    first = Formulas()
    tried = writes = False

    def run(*arguments: Any) -> Result:
        nonlocal tried, writes
        if not writes:
            try:
                with first if not tried else Formulas() if first.used else nullcontext():
                    result = function(*arguments)
                tried = True
                return result
            except RuntimeError as error:
                writes = tried and _is_about_a_write(error)
                if not writes:
                    raise
        try:
            with Formulas(_anchor(arguments)):
                return function(*arguments)
        except RuntimeError as error:
            if _is_about_a_write(error):
                raise RuntimeError(f"vmap: inplace: {error}") from error
            raise

    return run


def _is_about_a_write(error: RuntimeError) -> bool:
    """Is it what `vmap` says of a tensor that does not belong to the batch, and is written into?"""
    text = str(error)
    return ("vmap" in text and ("inplace" in text or "in-place" in text)) or "match the broadcast shape" in text

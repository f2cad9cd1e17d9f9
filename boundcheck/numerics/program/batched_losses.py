"""PyTorch losses rewritten in elementary operations, so that they work under nested `vmap`.

In torch 2.13, `F.mse_loss`, `F.huber_loss` and `F.smooth_l1_loss` raise an error under `vmap` of `vmap` if only one of
their arguments is batched twice. If a user's function calls one of them, or a layer of `batched_layers.py`, the formula
runs instead and returns the same values.
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
from boundcheck.numerics.program.batched_strides import STRIDES, VIEWS, Copy

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
    """Return the reduction that PyTorch's two deprecated arguments mean."""
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
    """Run PyTorch's own losses and layers inside this context, for code that analyses operations and does not batch."""
    token = _as_they_are.set(True)
    try:
        yield
    finally:
        _as_they_are.reset(token)


@contextmanager
def losses_by_formula() -> Iterator[None]:
    """Run the formulas inside this context, even within `losses_as_they_are`, for code that batches while recording."""
    token = _as_they_are.set(False)
    try:
        with Formulas():
            yield
    finally:
        _as_they_are.reset(token)


class Formulas(TorchFunctionMode):
    """Replaces the losses and layers by their formulas. `used` is True once a formula has run.

    With an `anchor`, a batched 0, new floating-point tensors are batched from the start. A function can then write
    batched values into them, which `vmap` refuses otherwise.
    """

    def __init__(self, anchor: Tensor | None = None) -> None:
        super().__init__()
        self.used = False
        self.anchor = anchor
        self._copies: list[Copy] = []

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        super().__exit__(exc_type, exc_value, traceback)  # type: ignore[no-untyped-call]
        copies, self._copies = self._copies, []
        if exc_type is None:
            for copy in copies:
                copy.refuse_writes()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        formula = None if _as_they_are.get() else FORMULAS.get(func)
        if formula is None:
            result = func(*args, **(kwargs or {}))
            if self.anchor is None or func not in NEW or not result.is_floating_point():
                return result
            return result + self.anchor.to(result)
        self.used = True
        result = formula(*args, **(kwargs or {}))
        if func in VIEWS:
            self._copies.append(Copy.of(args[0] if args else kwargs["input"], result))
        return result


NEW = frozenset((
    torch.zeros, torch.ones, torch.empty, torch.full, torch.eye, torch.zeros_like, torch.ones_like, torch.empty_like,
    torch.full_like, torch.clone, Tensor.clone, Tensor.new_zeros, Tensor.new_ones, Tensor.new_empty, Tensor.new_full,
))  # fmt: skip


def _anchor(arguments: Any) -> Tensor | None:
    """Return a 0 that belongs to every batch to which one of the arguments belongs."""
    tensors = [list(x.parameters()) if isinstance(x, nn.Module) else x for x in tree_leaves(arguments)]
    zeros = [x.detach().new_zeros(()) for x in tree_leaves(tensors) if isinstance(x, Tensor) and x.is_floating_point()]
    return torch.stack(zeros).sum() if zeros else None


def batchable(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return the same function, with formulas for losses and layers if its first call used any of them.

    If the function writes batched values into tensors that it created, its later calls create batched tensors.
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
    """Return True if `vmap` refused a write of batched values into a tensor that is not batched."""
    text = str(error)
    return ("vmap" in text and ("inplace" in text or "in-place" in text)) or "match the broadcast shape" in text

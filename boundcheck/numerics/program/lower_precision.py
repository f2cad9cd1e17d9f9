"""Find the lowest precision in which a function rounds, if it is lower than that of the problem.

A function can compute in a lower precision through `.half()` or `.float()`. Every operation whose result has a lower
precision runs a second time in float64. If the numbers differ, the operation rounds. A cast of 0 and 1 to float32, for
example, does not round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from boundcheck.numerics.program.operations import changed, leaves


def _eps(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps)


def in_double(x: Any) -> Any:
    """Convert an argument of an operation to float64 if it is a float tensor or a float dtype."""
    if isinstance(x, Tensor):
        return x.double() if x.is_floating_point() and x.dtype is not torch.float64 else x
    return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the coarsest dtype, lower than `own`, in which an operation rounded."""

    def __init__(self, own: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.own = own
        self.coarsest: torch.dtype = own

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        exact = None
        if any(self._is_lower(x) for x in leaves(args, kwargs)):
            exact = self._run_in_double(func, args, kwargs)  # first, as an in-place operation overwrites its arguments
        result = func(*args, **kwargs)
        outputs = [x for x in tree_leaves(result) if self._is_lower(x)]
        for x, y in zip(outputs, _floats(exact, len(outputs)), strict=True):
            if _eps(x.dtype) > _eps(self.coarsest) and not (isinstance(y, Tensor) and _same(x, y)):
                self.coarsest = x.dtype
        return result

    def _is_lower(self, x: Any) -> bool:
        dtype = x.dtype if isinstance(x, Tensor) else x
        return isinstance(dtype, torch.dtype) and dtype.is_floating_point and _eps(dtype) > _eps(self.own)

    def _run_in_double(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            double_args, double_kwargs = changed(in_double, args, kwargs)
            return func(*double_args, **double_kwargs)
        except (RuntimeError, TypeError, NotImplementedError):  # no comparison: the operation counts as rounding
            return None


def _floats(result: Any, count: int) -> list[Any]:
    floats = [x for x in tree_leaves(result) if isinstance(x, Tensor) and x.is_floating_point()]
    return floats if len(floats) == count else [None] * count


def _same(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape and torch.equal(x.double().nan_to_num(), y.double().nan_to_num())


def coarsest(own: torch.dtype, run: Callable[[], object]) -> torch.dtype:
    """Return the coarsest precision in which `run` rounds, or `own` if none is coarser."""
    with torch.enable_grad(), _Watch(own) as watch:
        run()
    dtype: torch.dtype = watch.coarsest
    return dtype

"""Which precision below that of a problem rounds numbers inside a function: where it says `.half()` or `.float()`.

Every operation with a result in a lower precision runs a second time in float64. One that gives other numbers rounds;
a cast of 0 and 1 to float32 does not.
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
    """A number, tensor or dtype of an operation, in float64 where it is a float."""
    if isinstance(x, Tensor):
        return x.double() if x.is_floating_point() and x.dtype is not torch.float64 else x
    return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the coarsest dtype below `own` in which an operation rounded."""

    def __init__(self, own: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.own = own
        self.coarsest: torch.dtype = own

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        exact = None
        if any(self._is_lower(x) for x in leaves(args, kwargs)):
            exact = self._again(func, args, kwargs)  # before an operation in place writes
        result = func(*args, **kwargs)
        outputs = [x for x in tree_leaves(result) if self._is_lower(x)]
        for x, y in zip(outputs, _floats(exact, len(outputs)), strict=True):
            if _eps(x.dtype) > _eps(self.coarsest) and not (isinstance(y, Tensor) and _same(x, y)):
                self.coarsest = x.dtype
        return result

    def _is_lower(self, x: Any) -> bool:
        dtype = x.dtype if isinstance(x, Tensor) else x
        return isinstance(dtype, torch.dtype) and dtype.is_floating_point and _eps(dtype) > _eps(self.own)

    def _again(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            more, named = changed(in_double, args, kwargs)
            return func(*more, **named)
        except (RuntimeError, TypeError, NotImplementedError):  # then nothing shows that it does not round
            return None


def _floats(result: Any, count: int) -> list[Any]:
    found = [x for x in tree_leaves(result) if isinstance(x, Tensor) and x.is_floating_point()]
    return found if len(found) == count else [None] * count


def _same(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape and torch.equal(x.double().nan_to_num(), y.double().nan_to_num())


def coarsest(own: torch.dtype, run: Callable[[], object]) -> torch.dtype:
    """The coarsest precision in which `run` rounds; `own` if none is coarser."""
    with torch.enable_grad(), _Watch(own) as watch:
        run()
    found: torch.dtype = watch.coarsest
    return found

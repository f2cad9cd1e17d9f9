"""Tangents of operations that are linear in some of their tensor arguments.

The operation itself computes the tangent of its result. Forward mode gives the same tangent but takes ten times as
long, because it also computes tangents of arguments that do not depend on the input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# positions of the arguments in which an operation is linear while all other arguments are fixed
IN_EACH = {
    **dict.fromkeys(
        ("aten.mul.Tensor", "aten.dot.default", "aten.mv.default", "aten.mm.default", "aten.bmm.default"), (0, 1)
    ),
    **dict.fromkeys(
        (
            "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar", "aten.neg.default", "aten.clone.default",
            "aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim",
            "aten.select_backward.default", "aten.slice_backward.default",
        ),
        (0,),
    ),
}  # fmt: skip
IN_BOTH = frozenset(("aten.add.Tensor", "aten.sub.Tensor"))  # linear in the first two arguments together
WITHOUT = frozenset(("aten.ones_like.default", "aten.zeros_like.default"))  # depend only on the shape of the argument


def known(full: str) -> bool:
    """Return True if `tangent` has a rule for the operation with this full name."""
    return full in IN_EACH or full in IN_BOTH or full in WITHOUT


def tangent(
    func: Any, full: str, args: tuple[Any, ...], kwargs: dict[str, Any], tangent_of: Callable[[Any], Tensor | None]
) -> Tensor | None:
    """Return the tangent of the result, or None if it is zero. `tangent_of` returns the tangent of an argument.

    Raises
    ------
    NotImplementedError
        if an argument has a tangent and the operation is not linear in it.
    """
    if full in WITHOUT:
        return None
    tangents = [tangent_of(x) for x in args]
    if any(tangent_of(x) is not None for x in kwargs.values()):
        raise NotImplementedError
    moving = [i for i, x in enumerate(tangents) if x is not None]
    if full in IN_BOTH:
        both = [_zero(x) if t is None else t for x, t in zip(args, tangents, strict=True)]
        sum_of_both: Tensor = func(*both, **kwargs)
        return sum_of_both
    if any(i not in IN_EACH[full] for i in moving):
        raise NotImplementedError
    parts: list[Tensor] = [func(*args[:i], tangents[i], *args[i + 1 :], **kwargs) for i in moving]
    return sum(parts[1:], parts[0])


def _zero(x: Any) -> Any:
    return torch.zeros_like(x) if isinstance(x, Tensor) else type(x)(0)

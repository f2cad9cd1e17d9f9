"""Does it matter that what a function computes from data alone is rounded?

Proofs are of the function that has these numbers as computed; bounds and residuals both take them so. A person means
the function that has them in exact arithmetic. Where the two differ visibly, nothing is proved: below float64, also
after a cast, wherever float64 gives another number, and in float64 wherever a rounding of every step changes a result
by more than `TOLERATED`, as it does where numbers cancel. This test takes proofs away, and no proof rests on it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.recorded_functions import functions
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.lower_precision import in_double
from boundcheck.numerics.program.operations import changed
from boundcheck.numerics.program.recorded_program import Declined, Operation, Program, Ref

TOLERATED = 1e-10  # relative, by the norms of what is computed


@lru_cache(maxsize=16)
def doubt(problem: Problem) -> str:
    """Where data are computed with rounding that matters; empty if nowhere, or if nothing is proved by a program."""
    if isinstance(problem.known, ClosedForms):
        return ""
    for name, function in functions(problem).values():
        try:
            program = capture(function, problem.w0, problem.lam, EXPANSIONS, every=True)
        except Declined:
            continue
        if found := _rounded(program):
            line = f", {found.line}" if found.line else ""
            dtype = str(problem.dtype).removeprefix("torch.")
            return f"{name} computes with its data in {dtype}, and rounds (aten.{found.name}{line}); do it in advance"
    return ""


def _rounded(program: Program) -> Operation | None:
    """The first operation on data alone whose result depends on how it is rounded."""
    stored: dict[int, Any] = {}
    other: dict[int, Any] = {}
    generator = torch.Generator().manual_seed(29)
    for index, operation in enumerate(program.operations):
        refs = operation.refs()
        if operation.func is None or not all(ref.node in stored for ref in refs):
            continue
        stored[index] = _run(operation, stored, widen=False)
        try:
            other[index] = tree_map_only(Tensor, lambda x: _shaken(x, generator), _run(operation, other, widen=True))
        except (RuntimeError, TypeError, NotImplementedError):
            return operation
        if any(_differ(x, y) for x, y in zip(tree_leaves(stored[index]), tree_leaves(other[index]), strict=True)):
            return operation
    return None


def _run(operation: Operation, values: dict[int, Any], *, widen: bool) -> Any:
    def of(x: Any) -> Any:
        if isinstance(x, Ref):
            value = values[x.node]
            return value[x.item] if isinstance(value, tuple | list) else value
        return in_double(x) if widen else x

    args, kwargs = changed(of, operation.args, operation.kwargs)
    return operation.func(*args, **kwargs)


def _shaken(x: Tensor, generator: torch.Generator) -> Tensor:
    if x.dtype != torch.float64:
        return x
    noise = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.device)
    return x * (1 + torch.finfo(x.dtype).eps * noise)


def _differ(x: Any, y: Any) -> bool:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return False
    x, y = x.double(), y.double()
    gap = torch.where(x == y, 0.0, x - y)  # an infinite entry has no difference, and says nothing of the size of others
    return not float(gap.norm()) <= TOLERATED * float(torch.where(x.isfinite(), x, 0.0).norm())

"""The derivative of a program along a direction, through everything that stops autograd.

Every operation that the program runs is differentiated by itself, in forward mode, and its tangent is kept beside the
memory of its result. What `detach()`, `.data`, `no_grad()` or the backward pass of an `autograd.Function` say to
autograd plays no part, so where the two derivatives differ, autograd's is that of another function. Views and in-place
operations are followed, because tangents lie in memory as the numbers do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from boundcheck.numerics.program.finite_differences import Line, Outcome
from boundcheck.numerics.program.outside_torch import NoWayOut
from boundcheck.numerics.program.rounding_rules.ball import Refusal

# what PyTorch does outside of every mode and transformation: autograd is on
_ORDINARY = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
DEVICES = ("cpu", "cuda", "mps")  # where a tensor has memory of its own
READS = frozenset(("_local_scalar_dense", "_linalg_check_errors", "_assert_async"))  # no tensor of numbers comes out

REFUTES = {torch.float64: 1e-3, torch.float32: 1e-2}  # a gap of this size, relative, is that of another function
OPEN = {torch.float64: 1e-6, torch.float32: 1e-3}  # a smaller one may be an iteration that stopped early
BESIDE = 3  # units of rounding of a step: off the kinks at which x may lie
PARTS = (2, 3)  # times so far beside x, where the gap has to be the same
STEADY = 0.2  # up to this share


def compare(line: Line) -> Outcome:
    """Autograd's derivative along the line against that of the operations.

    It "agrees" also where an operation hides what it does: then nothing speaks against autograd. "open" without a
    reason is a gap that may be rounding.
    """
    dtype = line.x.dtype
    autograd, ours, size = _both(line, 1)
    gap = abs(ours - autograd)
    if not gap > OPEN[dtype] * size:
        return Outcome("agrees")
    gaps = [ours - autograd, *(b - a for a, b, _ in (_both(line, part) for part in PARTS))]
    if not max(gaps) - min(gaps) <= STEADY * min(map(abs, gaps)):  # as rounding has, so nothing is said
        return Outcome("open")
    if gap > REFUTES[dtype] * size:
        return Outcome("refutes", autograd, ours, by="its operations, each differentiated by itself, give")
    return Outcome("open", reason=f"autograd and the operations differ by {gap / size:.1e} of the derivative")


def _both(line: Line, part: int) -> tuple[float, float, float]:
    """Autograd's derivative beside x, that of the operations (NaN where one hides), and their size."""
    x, u = line.x + part * BESIDE * torch.finfo(line.x.dtype).eps * line.u, line.u.to(torch.float64)
    through = derivative(line.value, x, line.u)
    if through is None:
        return math.nan, math.nan, math.nan
    g = line.gradient(x, line.c).detach().to(torch.float64) * u
    ours = float((through.reshape(-1) * line.c.reshape(-1)).to(torch.float64).sum())
    return float(g.sum()), ours, max(float(g.norm()), abs(ours), line.floor)


def derivative(function: Callable[[Tensor], Tensor], x: Tensor, u: Tensor) -> Tensor | None:
    """∂f(x)·u, operation by operation; None where an operation hides what it does.

    Parameters
    ----------
    function
        one tensor in, one tensor out.
    x, u
        the point and the direction.
    """
    if type(x) is not Tensor or x.device.type not in DEVICES:
        return None
    x = x.detach().clone()
    tangents = _Tangents()
    tangents.write(x, u.to(x.dtype))
    try:
        with NoWayOut(lambda refusal: refusal), tangents:
            y = function(x)
        return None if tangents.leaked else tangents.of(y).clone()
    except (Refusal, NotImplementedError, RuntimeError):
        return None


class _Tangents(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the tangent of every tensor whose numbers depend on x; `leaked` says that a number left PyTorch."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._memory: dict[int, tuple[Tensor, Tensor]] = {}  # a tensor that keeps the memory, and its tangents
        self.leaked = False

    def has(self, x: Any) -> bool:
        return _plain(x) and _place(x) in self._memory

    def of(self, x: Tensor) -> Tensor:
        """The tangent of x; zero where it does not depend on what the program was run at."""
        if not self.has(x):
            return torch.zeros_like(x)
        tangents = self._memory[_place(x)][1]
        if tangents.dtype != x.dtype:
            raise Refusal("the same memory is read as another dtype")
        return tangents.as_strided(x.shape, x.stride(), x.storage_offset())

    def write(self, x: Tensor, tangent: Tensor) -> None:
        if not self.has(x):
            entries = x.untyped_storage().nbytes() // x.element_size()
            self._memory[_place(x)] = x.detach(), torch.zeros(entries, dtype=x.dtype, device=x.device)
        self.of(x).copy_(tangent)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            return self._followed(func, args, kwargs or {})

    def _followed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        moving = [i for i, x in enumerate(leaves) if self.has(x)]
        if not moving or any(isinstance(x, Tensor) and x.is_meta for x in leaves):
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name in READS:
            self.leaked = self.leaked or name == "_local_scalar_dense"
            return func(*args, **kwargs)
        if func.namespace != "aten":
            raise Refusal(f"{func} hides what it does")
        if _is_view(func):
            return func(*args, **kwargs)
        written = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and _writes(func, x, args, kwargs)]
        with (
            torch._C._ForceDispatchKeyGuard(*_ORDINARY),
            forward_ad._set_fwd_grad_enabled(True),
            forward_ad.dual_level(),
        ):
            fresh = list(leaves)
            for i in {*moving, *written}:
                value = leaves[i].detach().clone() if i in written else leaves[i].detach()
                fresh[i] = _dual(value, self.of(leaves[i]).clone()) if i in moving else value
            new_args, new_kwargs = tree_unflatten(fresh, spec)
            outcome = func(*new_args, **new_kwargs)
            after = [fresh[i] for i in written] or [x for x in tree_leaves(outcome) if isinstance(x, Tensor)]
            tangents = [_tangent(x) for x in after]
        result = func(*args, **kwargs)
        results = [leaves[i] for i in written] or [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        for x, tangent in zip(results, tangents, strict=True):
            if not _plain(x) and tangent is not None:
                raise Refusal(f"{func} gives a tensor whose memory is not followed")
            if tangent is not None or self.has(x):
                self.write(x, torch.zeros_like(x) if tangent is None else tangent)
        return result


def _dual(x: Tensor, tangent: Tensor) -> Tensor:
    dual: Tensor = forward_ad.make_dual(x, tangent)  # type: ignore[no-untyped-call]
    return dual


def _tangent(x: Tensor) -> Tensor | None:
    tangent: Tensor | None = forward_ad.unpack_dual(x).tangent  # type: ignore[no-untyped-call]
    return tangent


def _place(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def _plain(x: Any) -> bool:
    return isinstance(x, Tensor) and x.layout is torch.strided and not x._is_zerotensor()


def _is_view(func: Any) -> bool:
    infos = [of.alias_info for of in func._schema.returns]
    return torch.Tag.inplace_view in func.tags or any(info is not None and not info.is_write for info in infos)


def _writes(func: Any, x: Tensor, args: Any, kwargs: dict[str, Any]) -> bool:
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[i] if i < len(args) else kwargs.get(argument.name)
            if any(x is y for y in tree_leaves(given)):
                return True
    return False

"""The derivative of a program along a direction, including the parts that stop autograd.

Every operation of the program is differentiated by itself, in forward mode, and its tangent is stored by the memory of
its result. `detach()`, `.data`, `no_grad()` and the backward pass of an `autograd.Function` have no effect on it. So if
it differs from the derivative by autograd, autograd differentiates another function. Views and in-place operations are
followed, because tangents have the same memory layout as the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from boundcheck.numerics.program import linear_operations, operations
from boundcheck.numerics.program.finite_differences import Line, LineAgreement
from boundcheck.numerics.program.operations import Facts
from boundcheck.numerics.program.outside_torch import NoWayOut
from boundcheck.numerics.program.rounding_rules.ball import Refusal

# the state of the dispatcher outside all modes and transformations: autograd is on
_ORDINARY = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
DEVICES = ("cpu", "cuda", "mps")  # devices on which tensors have addressable memory
READS = frozenset(("_local_scalar_dense", "_linalg_check_errors", "_assert_async"))  # they return no tensor

REFUTES = {torch.float64: 1e-3, torch.float32: 1e-2}  # relative gap from which autograd is refuted
OPEN = {torch.float64: 1e-6, torch.float32: 1e-3}  # relative gap from which the question is open; smaller ones agree
BESIDE = 3  # distance of the points from x, in units of rounding of u, to avoid kinks at x
PARTS = ((2, 1.37, 0.83), (3, 0.71, 1.19))  # further checks of a gap: multiples of the distance from x, of u and of c
STEADY = 0.2  # relative variation of the gap that is allowed over these checks
UNITS = 100  # rounding error of a sum of terms that may cancel, in units of rounding
APART = 100.0  # contributions to the derivative that are smaller by this factor are compared separately
GROUPS = 4  # largest number of groups of contributions of similar size
NOISE = 1e4  # smaller contributions, in units of rounding of the largest, may be what remains after cancellation


@dataclass(frozen=True, eq=False)
class _LineDerivatives:
    """Two derivatives along a line, at one point near x."""

    autograd: float
    ours: float  # the derivative by the operations
    size: float
    rounding: float  # rounding error of a sum whose terms may cancel, as for c = ±1/|w| and ∂f proportional to w
    by_entry: Tensor  # contribution of each entry of u, by autograd
    by_value: Tensor  # contribution of each value of f, by the operations

    @property
    def gap(self) -> float:
        return self.ours - self.autograd


def compare(line: Line) -> LineAgreement:
    """Compare autograd's derivative along the line with the derivative by the operations.

    The verdict is "agrees" also if an operation hides its computation, since nothing then contradicts autograd. "open"
    without a reason means a gap that may be rounding. Entries and values with small contributions are compared
    separately: beside a derivative of 1e6, a missing smaller one would not be visible.
    """
    pair = _both(line, 1)
    if pair is None:
        return LineAgreement("agrees")
    outcome = _judged(line, pair)
    of_u = (replace(line, u=line.u * mask.to(line.u)) for mask in _small(pair.by_entry, line.x.dtype))
    of_c = (
        replace(line, c=line.c * mask.to(line.c).reshape(line.c.shape)) for mask in _small(pair.by_value, line.x.dtype)
    )
    for part in chain(of_u, of_c):
        if outcome.verdict == "refutes":
            break
        small = _both(part, 1)
        of_part = LineAgreement("agrees") if small is None else _judged(part, small)
        outcome = of_part if of_part.verdict == "refutes" or outcome.verdict == "agrees" else outcome
    return outcome


def _judged(line: Line, pair: _LineDerivatives) -> LineAgreement:
    dtype, gap = line.x.dtype, abs(pair.gap)
    if not gap > max(OPEN[dtype] * pair.size, pair.rounding):
        return LineAgreement("agrees")
    gaps = [pair.gap, *(_elsewhere(line, *part) for part in PARTS)]
    if not max(gaps) - min(gaps) <= STEADY * min(map(abs, gaps)):  # not steady, as with rounding: no verdict
        return LineAgreement("open")
    if gap > REFUTES[dtype] * pair.size:
        return LineAgreement(
            "refutes", pair.autograd, pair.ours, by="its operations, each differentiated by itself, give"
        )
    return LineAgreement(
        "open", reason=f"autograd and the operations differ by {gap / pair.size:.1e} of the derivative"
    )


def _elsewhere(line: Line, part: int, of_u: float, of_c: float) -> float:
    """Return the gap farther from x for multiples of u and c, divided by the multiples, in which it is linear.

    NaN if an operation hides its computation.
    """
    pair = _both(replace(line, u=of_u * line.u, c=of_c * line.c), part)
    return math.nan if pair is None else pair.gap / (of_u * of_c)


def _small(shares: Tensor, dtype: torch.dtype) -> Iterator[Tensor]:
    """Yield a mask for each group of contributions of similar size, except the largest.

    Contributions that are 0 belong to the last group. Contributions at the level of rounding belong to none.
    """
    sizes = shares.abs()
    most = float(sizes.max())
    clear = sizes > NOISE * torch.finfo(dtype).eps * most
    if not (bool(clear.any()) and math.isfinite(most)):
        return
    least = float(sizes[clear].min())
    group = (torch.log(most / sizes.clamp(min=least)) / math.log(APART)).floor().clamp(max=GROUPS - 1)
    for step in range(1, GROUPS):
        mask = (group == step) & (clear | (sizes == 0))
        if bool(mask.any()):
            yield mask


def _both(line: Line, part: int) -> _LineDerivatives | None:
    """Return both derivatives near x; None if an operation hides its computation."""
    x, u = line.x + part * BESIDE * torch.finfo(line.x.dtype).eps * line.u, line.u.to(torch.float64)
    through = derivative(line.value, x, line.u)
    if through is None:
        return None
    g = line.gradient(x, line.c).detach().to(torch.float64) * u
    terms = (through.reshape(-1) * line.c.reshape(-1)).to(torch.float64)
    rounding = UNITS * torch.finfo(line.x.dtype).eps * float(terms.abs().sum())
    ours = float(terms.sum())
    return _LineDerivatives(float(g.sum()), ours, max(float(g.norm()), abs(ours), line.floor), rounding, g, terms)


def derivative(function: Callable[[Tensor], Tensor], x: Tensor, u: Tensor) -> Tensor | None:
    """Return ∂f(x)·u, computed operation by operation; None if an operation hides its computation.

    Parameters
    ----------
    function
        A function from one tensor to one tensor.
    x, u
        The point and the direction.
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
    """Stores the tangent of every tensor whose numbers depend on x. `leaked` is True once a number has left PyTorch."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._memory: dict[int, tuple[Tensor, Tensor]] = {}  # a tensor that keeps the memory alive, and the tangents
        self.leaked = False

    def has(self, x: Any) -> bool:
        return _plain(x) and _place(x) in self._memory

    def of(self, x: Tensor) -> Tensor:
        """Return the tangent of a tensor; zero if it does not depend on the program's input."""
        if not self.has(x):
            return torch.zeros_like(x)
        tangents = self._memory[_place(x)][1]
        if tangents.dtype != x.dtype:
            raise Refusal("the same memory is read as another dtype")
        return tangents.as_strided(x.shape, x.stride(), x.storage_offset())

    def write(self, x: Tensor, tangent: Tensor) -> None:
        entries = x.untyped_storage().nbytes() // x.element_size()
        if not self.has(x):
            if x.numel() == entries and x.is_contiguous():
                self._memory[_place(x)] = x.detach(), tangent.to(x.dtype).expand(x.shape).reshape(-1).clone()
                return
            self._memory[_place(x)] = x.detach(), torch.zeros(entries, dtype=x.dtype, device=x.device)
        self.of(x).copy_(tangent)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            try:
                return self._followed(func, args, kwargs or {})
            except Exception:
                self.leaked = True  # the function may catch it and take another branch
                raise

    def _followed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        inputs = operations.leaves(args, kwargs)
        if not any(self.has(x) for x in inputs) or any(isinstance(x, Tensor) and x.is_meta for x in inputs):
            return func(*args, **kwargs)
        facts = operations.facts(func)
        if facts.name in READS:
            self.leaked = self.leaked or facts.name == "_local_scalar_dense"
            return func(*args, **kwargs)
        if not facts.is_aten:
            raise Refusal(f"{func} hides what it does")
        if facts.is_view or facts.is_rebinding:
            return func(*args, **kwargs)
        if linear_operations.known(facts.full):
            try:
                tangent = linear_operations.tangent(func, facts.full, args, kwargs, self._moving)
            except NotImplementedError:
                return self._differentiated(func, facts, args, kwargs)
            result = func(*args, **kwargs)
            self._keep(func, [result], [tangent])
            return result
        return self._differentiated(func, facts, args, kwargs)

    def _moving(self, x: Any) -> Tensor | None:
        return self.of(x) if self.has(x) else None

    def _differentiated(self, func: Any, facts: Facts, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run an operation, and compute the tangents of its results by forward mode."""
        leaves, spec = tree_flatten((args, kwargs))
        moving = [i for i, x in enumerate(leaves) if self.has(x)]
        targets = [args[i] if i < len(args) else kwargs.get(name) for i, name in facts.written]
        targets = [y for x in targets for y in (x if isinstance(x, list | tuple) else (x,))]
        written = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and any(x is y for y in targets)]
        with (
            torch._C._ForceDispatchKeyGuard(*_ORDINARY),
            forward_ad._set_fwd_grad_enabled(True),
            forward_ad.dual_level(),
        ):
            dual_leaves = list(leaves)
            for i in {*moving, *written}:
                value = leaves[i].detach().clone() if i in written else leaves[i].detach()
                dual_leaves[i] = _dual(value, self.of(leaves[i]).clone()) if i in moving else value
            dual_args, dual_kwargs = tree_unflatten(dual_leaves, spec)
            outcome = func(*dual_args, **dual_kwargs)
            dual_results = [dual_leaves[i] for i in written] or tree_leaves(outcome)
            tangents = [_tangent(x) if isinstance(x, Tensor) else None for x in dual_results]
        result = func(*args, **kwargs)
        results = [leaves[i] for i in written] or tree_leaves(result)
        pairs = zip(results, tangents, strict=True)  # either of the two may be None, for a result that is not computed
        pairs_of_tensors = [(x, tangent) for x, tangent in pairs if isinstance(x, Tensor)]
        self._keep(func, [x for x, _ in pairs_of_tensors], [tangent for _, tangent in pairs_of_tensors])
        return result

    def _keep(self, func: Any, results: list[Tensor], tangents: list[Tensor | None]) -> None:
        for x, tangent in zip(results, tangents, strict=True):
            if not _plain(x) and tangent is not None:
                raise Refusal(f"{func} gives a tensor whose memory is not followed")
            if tangent is not None or self.has(x):
                self.write(x, torch.zeros_like(x) if tangent is None else tangent)


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

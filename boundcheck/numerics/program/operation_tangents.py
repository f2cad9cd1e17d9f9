"""The derivative of a program along a direction, through everything that stops autograd.

Every operation that the program runs is differentiated by itself, in forward mode, and its tangent is kept beside the
memory of its result. What `detach()`, `.data`, `no_grad()` or the backward pass of an `autograd.Function` say to
autograd plays no part, so where the two derivatives differ, autograd's is that of another function. Views and in-place
operations are followed, because tangents lie in memory as the numbers do.
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

# what PyTorch does outside of every mode and transformation: autograd is on
_ORDINARY = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
DEVICES = ("cpu", "cuda", "mps")  # where a tensor has memory of its own
READS = frozenset(("_local_scalar_dense", "_linalg_check_errors", "_assert_async"))  # no tensor of numbers comes out

REFUTES = {torch.float64: 1e-3, torch.float32: 1e-2}  # a gap of this size, relative, is that of another function
OPEN = {torch.float64: 1e-6, torch.float32: 1e-3}  # a smaller one may be an iteration that stopped early
BESIDE = 3  # units of rounding of a step: off the kinks at which x may lie
PARTS = ((2, 1.37, 0.83), (3, 0.71, 1.19))  # times so far beside x, for these multiples of u and c, it is the same gap
STEADY = 0.2  # up to this share
UNITS = 100  # of rounding, in a sum of terms that may cancel
APART = 100.0  # a share of the derivative that is smaller by this factor is looked at by itself
GROUPS = 4  # of shares of one size, at most
NOISE = 1e4  # units of rounding of the largest share: what is smaller may be left over where numbers cancelled


@dataclass(frozen=True, eq=False)
class _LineDerivatives:
    """Two derivatives along a line, at one point beside x."""

    autograd: float
    ours: float  # that of the operations
    size: float
    rounding: float  # of a sum of terms that may cancel, as c = ±1/|w| makes of a ∂f in proportion to w
    by_entry: Tensor  # what each entry of u adds, says autograd
    by_value: Tensor  # what each value of f adds, say the operations

    @property
    def gap(self) -> float:
        return self.ours - self.autograd


def compare(line: Line) -> LineAgreement:
    """Autograd's derivative along the line against that of the operations.

    It "agrees" also where an operation hides what it does: then nothing speaks against autograd. "open" without a
    reason is a gap that may be rounding. Entries and values that add little to the whole are looked at by themselves:
    beside a derivative of 1e6, it would not be visible that another is missing.
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
    if not max(gaps) - min(gaps) <= STEADY * min(map(abs, gaps)):  # as rounding has, so nothing is said
        return LineAgreement("open")
    if gap > REFUTES[dtype] * pair.size:
        return LineAgreement(
            "refutes", pair.autograd, pair.ours, by="its operations, each differentiated by itself, give"
        )
    return LineAgreement(
        "open", reason=f"autograd and the operations differ by {gap / pair.size:.1e} of the derivative"
    )


def _elsewhere(line: Line, part: int, of_u: float, of_c: float) -> float:
    """The gap further beside x, for a multiple of u and c, which it is linear in; NaN where there is none."""
    pair = _both(replace(line, u=of_u * line.u, c=of_c * line.c), part)
    return math.nan if pair is None else pair.gap / (of_u * of_c)


def _small(shares: Tensor, dtype: torch.dtype) -> Iterator[Tensor]:
    """Masks of what is of one size, but for the largest; what is 0 belongs to the last, and rounding to none."""
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
    """Both derivatives beside x; None where an operation hides what it does."""
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
                self.leaked = True  # the function may catch it, and do something else
                raise

    def _followed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        given = operations.leaves(args, kwargs)
        if not any(self.has(x) for x in given) or any(isinstance(x, Tensor) and x.is_meta for x in given):
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
        """By forward mode."""
        leaves, spec = tree_flatten((args, kwargs))
        moving = [i for i, x in enumerate(leaves) if self.has(x)]
        into = [args[i] if i < len(args) else kwargs.get(name) for i, name in facts.written]
        into = [y for x in into for y in (x if isinstance(x, list | tuple) else (x,))]
        written = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and any(x is y for y in into)]
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
            after = [fresh[i] for i in written] or tree_leaves(outcome)
            tangents = [_tangent(x) if isinstance(x, Tensor) else None for x in after]
        result = func(*args, **kwargs)
        results = [leaves[i] for i in written] or tree_leaves(result)
        pairs = zip(results, tangents, strict=True)  # a result that was not asked for is None in one of both
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

"""What watches a program run, operation by operation, and keeps a ball of the exact value of every float number."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from boundcheck.numerics.program import operations
from boundcheck.numerics.program.operations import Facts
from boundcheck.numerics.program.outside_torch import ForeignOperation
from boundcheck.numerics.program.rounding_rules import RULES
from boundcheck.numerics.program.rounding_rules.ball import Ball, Refusal, point
from boundcheck.numerics.program.rounding_rules.linalg import LU, Factors, matrix_of
from boundcheck.numerics.program.rounding_rules.products import SPARSE
from boundcheck.numerics.program.torch_modules import Plugged

# operations that make tensors of given numbers: those are stored, so exact
NEW = frozenset((
    "zeros", "ones", "full", "empty", "eye", "arange", "linspace", "scalar_tensor", "zeros_like", "ones_like",
    "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "empty_strided", "new_empty_strided",
    "lift_fresh", "_efficientzerotensor", "tril_indices", "triu_indices",
))  # fmt: skip
WITHOUT_VALUE = frozenset(("out", "memory_format", "layout", "device", "pin_memory"))  # arguments that change no number
COPIES = ("aten.copy_.", "aten.clone.")
UNCHECKED = frozenset(("_linalg_check_errors", "_assert_async", "_local_scalar_dense"))


@dataclass(frozen=True, eq=False)
class _MemoryCell:
    """Midpoints and radii of one piece of memory, entry by entry as it lies there; `owner` keeps it from reuse."""

    owner: Tensor
    mid: Tensor
    rad: Tensor


def _place(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def _float(x: Any) -> bool:
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


class RoundingWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows every operation with its rule; without `enclose`, only keeps what was seen.

    An operation runs as it is, then its rule runs on balls, in float64. Tensors of conditions and of whole numbers are
    exact: where a rule is not sure of them, or where what was computed is not what is sure, it is declined. What a
    function computes from data alone is data: it has no ball, and is exact as computed.
    """

    def __init__(self, enclose: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.enclose = enclose
        self.recorded: list[ForeignOperation] = []
        self.refusal: Refusal | None = None
        self._memory: dict[int, _MemoryCell] = {}
        self._data: dict[int, Tensor] = {}  # by place, what was computed from data alone; kept from reuse
        self._factors: dict[int, tuple[Tensor, Factors]] = {}

    def start(self, *known: Tensor) -> None:
        """These are what the program is run at."""
        for x in known:
            self._write(x, point(x))

    def ball(self, x: Tensor) -> Ball:
        """The ball of a tensor; numbers that no operation computed are exact."""
        if x._is_zerotensor():
            return point(torch.zeros(x.shape, dtype=torch.float64))
        cell = self._memory.get(_place(x))
        if cell is None:
            return point(x)
        return Ball(*(t.as_strided(x.shape, x.stride(), x.storage_offset()) for t in (cell.mid, cell.rad)))

    def _write(self, x: Tensor, new: Ball) -> None:
        """Put balls where x lies."""
        place, n = _place(x), x.untyped_storage().nbytes() // x.element_size()
        if not self.enclose:
            self._memory[place] = _MemoryCell(x.detach(), new.mid, new.rad)
            return
        if place not in self._memory:
            if x.is_contiguous() and x.numel() == n:
                flat = (t.expand(x.shape).reshape(-1).clone() for t in (new.mid, new.rad))
                self._memory[place] = _MemoryCell(x.detach(), *flat)
                return
            old = x.detach().as_strided((n,), (1,), 0).to(torch.float64)
            self._memory[place] = _MemoryCell(x.detach(), old.clone(), torch.zeros_like(old))
        stored = self.ball(x)
        stored.mid.copy_(new.mid.expand(x.shape))
        stored.rad.copy_(new.rad.expand(x.shape))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            try:
                return self._followed(func, args, kwargs or {})
            except Refusal as refusal:
                raise self.refuse(refusal) from refusal.__cause__
            except Exception as error:  # the function may catch it, and do something else
                raise self.refuse(Refusal(f"{func} raises {type(error).__name__}")) from error

    def refuse(self, refusal: Refusal) -> Refusal:
        """Keep the first refusal, for a program that catches errors."""
        self.refusal = self.refusal or refusal
        return refusal

    def _followed(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        facts, leaves = operations.facts(func), operations.leaves(args, kwargs)
        name, full = facts.name, facts.full
        given = [x for x in leaves if isinstance(x, Tensor)]
        if any(x.is_meta for x in given):  # PyTorch asks for a shape: there are no numbers in it
            return func(*args, **kwargs)
        self._allowed(facts, given, args)
        written = [args[i] if i < len(args) else kwargs[key] for i, key in facts.written]
        if not all(isinstance(x, Tensor) for x in written):
            raise Refusal(f"{full} has no rule")
        if facts.is_view or facts.is_rebinding:
            self._note(full, leaves, [])
            result = func(*args, **kwargs)
            if not _sparse(given[0]) and any(x.dtype != given[0].dtype for x in _leaves(result)):
                raise Refusal(f"{full}: the same memory as another dtype")
            return result
        blank = written if name in ("fill_", "copy_", "zero_") else []  # not read before
        self._note(full, leaves, [x for x in given if not any(x is y for y in blank)])
        in_backward = torch._C._current_autograd_node() is not None  # derivatives are those of exact arithmetic
        from_data = not in_backward and not any(self._has_ball(x) for x in given)
        for x in written:
            if _float(x) and not self._followed_to(x):
                self._snapshot(x)
            if _float(x) and not self._has_ball(x) and not from_data:
                self._write(x, point(x))  # before it changes
        arguments = self._arguments(name, args, kwargs) if self.enclose and not from_data else None
        places = {_place(x) for x in given if not _sparse(x) and not x._is_zerotensor()}
        result = func(*args, **kwargs)
        if name == "_local_scalar_dense":
            return self._read(given[0], result)
        if name in UNCHECKED or _is_new(name, given):
            return result
        results = written or _leaves(result)
        if not any(_float(x) for x in (*given, *results)):
            return result  # whole numbers and conditions only
        if not written and all(_old(x, places) for x in results):
            return result  # the same memory, or zeros without memory
        if from_data:
            self._data |= {
                _place(x): x.detach() for x in results if _float(x) and not _sparse(x) and not x._is_zerotensor()
            }
            if name in LU and self.enclose:
                self._keep_factors(name, self._arguments(name, args, kwargs)[0][0], results)
            return result
        self._apply(full, name, arguments, results)
        return result

    def _allowed(self, facts: Facts, given: list[Tensor], args: tuple[Any, ...]) -> None:
        if facts.is_random:
            raise Refusal(f"{facts.full}: random numbers")
        if any(isinstance(x, complex) for x in args) or any(x.is_complex() for x in given):
            raise Refusal(f"{facts.full}: complex numbers")
        for x in given:
            if type(x) not in (Tensor, torch.nn.Parameter, Plugged) or x.device.type != "cpu" or x.is_neg():
                raise Refusal(f"{facts.full}: a tensor of type {type(x).__name__} on {x.device}")

    def _note(self, full: str, leaves: list[Any], read: list[Tensor]) -> None:
        numbers = tuple(x for x in leaves if isinstance(x, bool | int | float | str))
        constants = [x for x in read if _float(x) and not x._is_zerotensor() and not self._followed_to(x)]
        self.recorded.append(ForeignOperation(full, numbers, tuple(x.detach() for x in constants)))

    def _snapshot(self, x: Tensor) -> None:
        """Keep what constants in the memory of x were, which is about to change."""
        for i, step in enumerate(self.recorded):
            if any(not _sparse(c) and _place(c) == _place(x) for c in step.constants):
                self.recorded[i] = replace(step, constants=tuple(c.clone() for c in step.constants))

    def _has_ball(self, x: Tensor) -> bool:
        return x.layout is torch.strided and not x._is_zerotensor() and _place(x) in self._memory

    def _followed_to(self, x: Tensor) -> bool:
        """Did an operation write there?"""
        return self._has_ball(x) or (x.layout is torch.strided and not x._is_zerotensor() and _place(x) in self._data)

    def _arguments(self, name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        def of(x: Any) -> Any:
            if not _float(x):
                return x
            if _sparse(x):
                if name not in SPARSE:
                    raise Refusal(f"aten.{name}: a sparse tensor")
                return x
            lu, factors = self._factors.get(_place(x), (None, None)) if not x._is_zerotensor() else (None, None)
            if factors is not None and lu is not None and (lu.shape, lu.stride()) == (x.shape, x.stride()):
                return factors
            return self.ball(x)

        return operations.changed(of, args, kwargs)

    def _rule(self, full: str, name: str, arguments: Any) -> Any:
        base = name.removesuffix("_") if not name.startswith("__") else name
        rule = RULES.get(name) or RULES.get(base)
        if rule is None:
            raise Refusal(f"{full} has no rule")
        args, kwargs = arguments
        kwargs = {k: v for k, v in kwargs.items() if k not in WITHOUT_VALUE}
        try:
            return rule(*args, **kwargs)
        except Refusal as refusal:
            raise Refusal(f"{full}: {refusal}") from refusal
        except (TypeError, AttributeError, IndexError, RuntimeError, ValueError) as error:
            raise Refusal(f"{full}: the rule does not take these arguments: {error}") from error

    def _apply(self, full: str, name: str, arguments: Any, results: list[Any]) -> None:
        """Put what the rule says where the results lie; conditions and whole numbers must be what is sure."""
        if not self.enclose:
            for x in results:
                if _float(x) and not _sparse(x) and not x._is_zerotensor():
                    self._write(x, point(x))
            return
        result = self._rule(full, name, arguments)
        every = list(result) if isinstance(result, tuple | list) else [result]
        if len(every) != len(results):
            raise Refusal(f"{full}: the rule gives {len(every)} results of {len(results)}")
        for x, new in zip(results, every, strict=True):
            if _float(x):
                self._keep(full, x, new)
            elif new is not None or not isinstance(result, tuple):
                _same(full, new, x)
        if name in LU:
            self._keep_factors(name, arguments[0][0], results)

    def _keep_factors(self, name: str, matrix: Ball, results: list[Any]) -> None:
        """Remember of which matrix the LU factors are."""
        lu, pivots = results[LU[name][0]], results[LU[name][1]]
        self._factors[_place(lu)] = (lu.detach(), matrix_of(matrix, lu, pivots))

    def _keep(self, full: str, x: Tensor, new: Any) -> None:
        if not isinstance(x, Tensor) or x.layout is not torch.strided:
            raise Refusal(f"{full}: a sparse result")
        self._factors.pop(_place(x), None)
        if new is None:
            unknown = torch.full(x.shape, math.inf, dtype=torch.float64)
            self._write(x, Ball(torch.zeros_like(unknown), unknown))
            return
        if not isinstance(new, Ball):
            raise Refusal(f"{full}: the rule gives no ball")
        known = new.mid.isfinite() & new.rad.isfinite()
        if full.startswith(COPIES) and not bool(known.all()):  # of memory that nobody wrote
            new = Ball(torch.where(known, new.mid, 0.0), torch.where(known, new.rad, math.inf))
        elif not bool(known.all()):
            raise Refusal(f"{full}: a number is not finite, or nothing is known of it")
        if x.dtype.is_complex or not _fits(new, x):
            raise Refusal(f"{full}: the rule gives the shape {tuple(new.shape)} and PyTorch {tuple(x.shape)}")
        if not x._is_zerotensor():
            self._write(x, new)

    def _read(self, x: Tensor, result: Any) -> Any:
        """`.item()` and conditions in Python: only of exact numbers."""
        if _float(x) and self.enclose:
            known = self.ball(x)
            if not known.exact or float(known.mid) != result:
                raise Refusal("aten._local_scalar_dense (.item(), float(…), if …): a computed number decides")
        return result


def _same(full: str, sure: Any, result: Any) -> None:
    if not isinstance(sure, Tensor) or not isinstance(result, Tensor):
        raise Refusal(f"{full} has no rule for this result")
    if sure.shape != result.shape or not bool((sure == result).all()):
        raise Refusal(f"{full}: rounding changed a condition or an index")


def _leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def _sparse(x: Any) -> bool:
    return isinstance(x, Tensor) and x.layout is not torch.strided


def _fits(new: Ball, x: Tensor) -> bool:
    """Can the ball be expanded to the shape of x?"""
    sides = zip(reversed(new.shape), reversed(x.shape), strict=False)
    return new.mid.dim() <= x.dim() and all(a in (1, b) for a, b in sides)


def _old(x: Any, places: set[int]) -> bool:
    """Is it memory of the arguments, or a zero without memory?"""
    return _float(x) and not _sparse(x) and (x._is_zerotensor() or _place(x) in places)


def _is_new(name: str, given: list[Tensor]) -> bool:
    """Is it a tensor of given numbers, of which other tensors only tell the shape?"""
    return name in NEW and (name.endswith("_like") or name.startswith(("new_", "lift_")) or not any(map(_float, given)))

"""The operations that a user's function of (w, λ) runs, recorded as a program.

The function runs once, on tensors, while a dispatch mode writes down every ATen operation with its arguments. No number
may leave PyTorch on the way (`.item()`, `.numpy()`, `if` on a tensor), so the operations cannot depend on values: what
is recorded at one point is what the function does at every point of the same shape.

A function is declined, with the name of the operation and the line that called it, if it draws random numbers, writes
into memory that depends on w or λ, cuts a derivative (`detach()`, `no_grad()`, an `autograd.Function` of its own), or
takes numbers out of PyTorch. What the value does not depend on may do all that but write and random numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from boundcheck.numerics.program.batched_losses import losses_as_they_are
from boundcheck.numerics.program.outside_torch import NoWayOut
from boundcheck.numerics.program.rounding_rules.ball import Refusal
from boundcheck.numerics.program.torch_modules import Plugged

HOOKS = frozenset(("detach_", "register_hook", "register_post_accumulate_grad_hook"))
# functions that read numbers where no operation is seen: text, Python numbers, tensors from lists of tensors
READS = frozenset((
    "tensor", "as_tensor", "asarray", "new_tensor", "new", "__float__", "__int__", "__index__", "__complex__",
    "__bool__", "__repr__", "__format__", "const_data_ptr", "__deepcopy__",
))  # fmt: skip
RESHAPED = {"squeeze_": "squeeze", "unsqueeze_": "unsqueeze", "t_": "t"}  # in place, but no number is written
CUT = "cut"  # the operation that stands for detach() and .data
PACKAGE = Path(__file__).resolve().parents[2]
TORCH = Path(torch.__file__).resolve().parent
MOST_OPERATIONS = 5_000
Expand = Callable[..., Any]  # an operation written with simpler ones


class Declined(Exception):  # noqa: N818
    """Nothing is proved of a program, for the reason given; shown to users as the reason, never raised to them."""


@dataclass(frozen=True)
class Ref:
    """The value of an operation: the `item`-th of its results."""

    node: int
    item: int = 0


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation. In `args` and `kwargs`, a `Ref` stands for every tensor that depends on w or λ."""

    name: str  # of the ATen operation, such as "mv"; "input" for w and λ
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: tuple[torch.Size, ...]  # of its results
    func: Any
    line: str  # the user's file and line; empty if there is none

    def refs(self) -> Iterator[Ref]:
        """The computed tensors that it reads."""
        return (x for x in tree_leaves((self.args, self.kwargs)) if isinstance(x, Ref))


@dataclass(frozen=True, eq=False)
class Program:
    """The operations in the order in which they ran; the first two are the inputs w and λ."""

    operations: tuple[Operation, ...]
    output: Ref
    shape: torch.Size  # of the output


W, LAM = Ref(0), Ref(1)


@dataclass(eq=False)
class Recorder(TorchDispatchMode):
    """Writes operations down while it is active. `expansions` are operations to be replaced by simpler ones.

    With `every`, operations on data alone are written down too, if they compute numbers.
    """

    expansions: dict[str, Expand]
    every: bool = False
    operations: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refs: dict[Any, Ref] = {}
        self._storages: dict[int, object] = {}  # kept, so that no address is used twice
        self._of_data: set[int] = set()  # operations on data alone
        self.reason = ""

    def start(self, *inputs: Tensor) -> None:
        """Name the inputs."""
        for x in inputs:
            self._add("input", (), {}, None, (x,), "")

    def ref(self, x: Tensor) -> Ref | None:
        """Which value a tensor is; None for data."""
        storage = _storage(x)
        if storage is None or storage._cdata not in self._storages:
            return None
        ref = self._refs.get(_key(x))
        if ref is None:
            raise self._decline("memory that depends on w or λ is looked at in a way that was not recorded")
        return ref

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
            if any(x.is_meta for x in tensors):  # PyTorch asks for a shape: there are no numbers in it
                return func(*args, **kwargs)
            if torch.Tag.nondeterministic_seeded in func.tags:
                raise self._decline(f"{func}: random numbers")
            name = func._schema.name.removeprefix("aten::")
            if name == "detach_" and not any(self._varies(x) for x in tensors):  # no number is written
                return func(*args, **kwargs)
            if not any(self.ref(x) is not None for x in tensors) and not self._computes(func, args, kwargs, tensors):
                return func(*args, **kwargs)
            if name in RESHAPED and func.namespace == "aten":  # `vector @ matrix` ends in one
                return self._reshaped(func, RESHAPED[name], args, kwargs, tensors)
            self._refuse_unusable(func, name, tensors)
            if name != "index" or any(x is not None and self.ref(x) is not None for x in args[1]):
                self._refuse_numbers(func)
            if name in self.expansions:
                with self:
                    result = self.expansions[name](*args, **kwargs)
                if result is not NotImplemented:
                    return result
            result = func(*args, **kwargs)
            results = tuple(result) if isinstance(result, tuple | list) else (result,)
            self._add(name, args, kwargs, func, results, _line())
            return result

    def _varies(self, x: Tensor) -> bool:
        """Does it depend on w or λ?"""
        ref = self.ref(x)
        return ref is not None and ref.node not in self._of_data

    def _computes(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> bool:
        """Are numbers computed from data that are to be written down? A view of data is data."""
        if not self.every or not any(x.is_floating_point() for x in tensors):
            return False
        if any(
            returned.alias_info is not None and not returned.alias_info.is_write for returned in func._schema.returns
        ):
            return False
        with torch._C._DisableTorchDispatch():
            results = [x for x in tree_leaves(func(*args, **kwargs)) if isinstance(x, Tensor)]
        return any(x.is_floating_point() for x in results)

    def _reshaped(self, func: Any, name: str, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """An operation that gives a tensor another shape and leaves its memory: recorded as the one that does not."""
        plain = getattr(getattr(torch.ops.aten, name), func._overloadname)
        self._refuse_unusable(plain, name, tensors)
        with torch._C._DisableTorchDispatch():
            before = args[0].detach()
        result = func(*args, **kwargs)
        self._add(name, (before, *args[1:]), kwargs, plain, (result,), _line())
        return result

    def cut(self, x: Tensor) -> Tensor:
        """A copy of a tensor whose derivative is cut off."""
        with torch._C._DisableTorchDispatch():
            copy = x.clone()
        self._add(CUT, (x,), {}, None, (copy,), _line())
        return copy

    def _add(self, name: str, args: Any, kwargs: Any, func: Any, results: tuple[Any, ...], line: str) -> None:
        index = len(self.operations)
        if index >= MOST_OPERATIONS:
            raise self._decline(f"more than {MOST_OPERATIONS} operations")

        def of(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            return self.ref(x) or x.detach()

        shapes = tuple(x.shape if isinstance(x, Tensor) else torch.Size() for x in results)
        recorded_args, recorded_kwargs = tree_map(of, (tuple(args), dict(kwargs)))
        operation = Operation(name, recorded_args, recorded_kwargs, shapes, func, line)
        if name != "input" and all(ref.node in self._of_data for ref in operation.refs()):
            self._of_data.add(index)
        self.operations.append(operation)
        for item, x in enumerate(results):
            if isinstance(x, Tensor):
                storage = _storage(x)
                if storage is None:
                    raise self._decline(f"{func}: a tensor without memory of its own")
                self._storages[storage._cdata] = storage
                self._refs.setdefault(_key(x), Ref(index, item))

    def _refuse_unusable(self, func: Any, name: str, tensors: list[Tensor]) -> None:
        if func.namespace != "aten":
            raise self._decline(f"{func} is not an operation of PyTorch's own")
        if func._schema.is_mutable:
            raise self._decline(f"{func} writes in place")
        if not torch.is_grad_enabled():
            raise self._decline(
                f"{func} under no_grad, or in an autograd.Function: its derivative is not that of the operation"
            )
        for x in tensors:
            if type(x) not in (Tensor, torch.nn.Parameter, Plugged) or x.is_complex() or x.is_neg():
                raise self._decline(f"{func}: a tensor of type {type(x).__name__}, {x.dtype}")

    def _refuse_numbers(self, func: Any) -> None:
        if not {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}.isdisjoint(func.tags):
            raise self._decline(f"{func}: a number leaves PyTorch, or a shape depends on one")

    def _decline(self, why: str) -> Declined:
        """Keep the first reason, for a function that catches errors."""
        line = _line()
        self.reason = self.reason or (f"{why}, {line}" if line else why)
        return Declined(self.reason)


class _Cuts(TorchFunctionMode):
    """Gives what is cut off from its derivative, by `detach()` or `.data`, memory of its own, and records the cut."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in READS and not (name in ("tensor", "as_tensor", "asarray") and isinstance(args[0], Tensor)):
            self._refuse_reading(name, tree_leaves((args, kwargs)))
        result = func(*args, **(kwargs or {}))
        if name != "detach" and getattr(func, "__self__", None) is not Tensor.data:
            return result
        with torch._C.DisableTorchFunction():
            if not isinstance(result, Tensor) or self.recorder.ref(result) is None:
                return result
            return self.recorder.cut(result)

    def _refuse_reading(self, name: str, leaves: list[Any]) -> None:
        with torch._C.DisableTorchFunction():
            if any(isinstance(x, Tensor) and self.recorder.ref(x) is not None for x in leaves):
                raise self.recorder._decline(f"{name} takes numbers out of PyTorch")


def capture(
    function: Callable[[Tensor, Tensor], Tensor], w: Tensor, lam: Tensor, expansions: dict[str, Expand],
    *, every: bool = False,
) -> Program:  # fmt: skip
    """Record a function of w and λ.

    Parameters
    ----------
    function : callable (w, lam) -> Tensor
        A function of two flat vectors.
    w, lam : Tensor
        Where it is run.
    expansions : dict of callables by name
        Operations that are replaced by simpler ones, with the arguments of the operation.
    every : bool
        Whether numbers that are computed from data alone are operations of the program too; else, the default, they
        are numbers as they are stored.

    Returns
    -------
    Program
        Its operations, without those that the value does not depend on.

    Raises
    ------
    Declined
        If the function cannot be recorded, with the reason.
    """
    w, lam = (x.detach().clone() for x in (w, lam))
    recorder = Recorder(expansions, every)

    def refuse(refusal: Refusal) -> Refusal:
        recorder._decline(str(refusal))
        return refusal

    recorder.start(w, lam)
    try:
        with torch.enable_grad(), losses_as_they_are(), NoWayOut(refuse, HOOKS), _Cuts(recorder), recorder:
            value = function(w, lam)
    except Exception as error:  # the user's code may raise anything
        text = " ".join(str(error).split())[:200]
        raise Declined(recorder.reason or f"the program cannot be recorded: {text}") from error
    if recorder.reason:  # and the user's code caught it
        raise Declined(recorder.reason)
    output = recorder.ref(value)
    if output is None:
        raise Declined("the value does not depend on w or λ")
    return _without_unused(recorder.operations, output, value.shape)


def _without_unused(operations: list[Operation], output: Ref, shape: torch.Size) -> Program:
    used = {0, 1, output.node}
    for i in range(len(operations) - 1, -1, -1):
        if i in used:
            used.update(ref.node for ref in operations[i].refs())
    place = {old: new for new, old in enumerate(sorted(used))}

    def moved(x: Any) -> Any:
        return Ref(place[x.node], x.item) if isinstance(x, Ref) else x

    kept = [operations[i] for i in sorted(used)]
    renumbered = []
    for operation in kept:
        args, kwargs = tree_map(moved, (operation.args, operation.kwargs), is_leaf=lambda x: isinstance(x, Ref))
        renumbered.append(replace(operation, args=args, kwargs=kwargs))
    return Program(tuple(renumbered), moved(output), shape)


def _storage(x: Tensor) -> Any:
    try:
        return x.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return None


def _key(x: Tensor) -> tuple[Any, ...]:
    return _storage(x)._cdata, x.storage_offset(), tuple(x.shape), x.stride(), x.dtype


def _line() -> str:
    """The innermost line of code that belongs neither to this package nor to PyTorch, as "file.py:12"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if not (path.is_relative_to(PACKAGE) or path.is_relative_to(TORCH)) and not str(path).startswith("<"):
            return f"{path.name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""

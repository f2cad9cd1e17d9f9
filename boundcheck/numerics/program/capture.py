"""The operations that a user's function of (w, λ) runs, recorded as a program.

The function runs once, on tensors, while a dispatch mode writes down every ATen operation with its arguments. No number
may leave PyTorch on the way (`.item()`, `.numpy()`, `if` on a tensor), so the operations cannot depend on values: what
is recorded at one point is what the function does at every point of the same shape.

A function is declined, with the name of the operation and the line that called it, if it draws random numbers, cuts a
derivative (`detach()`, `no_grad()`, an `autograd.Function` of its own), or takes numbers out of PyTorch. What the value
does not depend on may do all that but draw random numbers.

An operation that writes in place (`x += b`, `x[i] = b`, `x.exp_()`) into memory that the function itself took is
recorded as the one that does not, and `memory.py` keeps what every place holds, whichever view it is seen through.
Writes into w, λ, the user's data, or memory that was also seen through `detach()` or `.data`, are declined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from boundcheck.numerics.program.batched_losses import losses_as_they_are
from boundcheck.numerics.program.in_place import cast, out_of_place
from boundcheck.numerics.program.memory import Memory, places
from boundcheck.numerics.program.operations import changed, leaves
from boundcheck.numerics.program.outside_torch import NoWayOut
from boundcheck.numerics.program.rounding_rules.ball import Refusal
from boundcheck.numerics.program.torch_modules import Plugged
from boundcheck.numerics.program.user_lines import current_line

HOOKS = frozenset(("detach_", "register_hook", "register_post_accumulate_grad_hook"))
# functions that read numbers where no operation is seen: text, Python numbers, tensors from lists of tensors
READS = frozenset((
    "tensor", "as_tensor", "asarray", "new_tensor", "new", "__float__", "__int__", "__index__", "__complex__",
    "__bool__", "__repr__", "__format__", "const_data_ptr", "__deepcopy__",
))  # fmt: skip
RESHAPED = {"squeeze_": "squeeze", "unsqueeze_": "unsqueeze", "t_": "t"}  # in place, but no number is written
# operations that return numbers whatever the numbers are of the tensor that they take
CONSTANTS = frozenset((
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
))  # fmt: skip
CUT = "cut"  # the operation that stands for detach() and .data
MATRIX = "matrix"  # the operation that stands for the product with a matrix that PyTorch does not see
MOST_OPERATIONS = 5_000
SAME = 1e-4  # by rounding alone, relative
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
        return (x for x in leaves(self.args, self.kwargs) if isinstance(x, Ref))


@dataclass(frozen=True, eq=False)
class Program:
    """The operations in the order in which they ran; the first are the inputs w and λ, and data where it is one."""

    operations: tuple[Operation, ...]
    output: Ref
    shape: torch.Size  # of the output


W, LAM = Ref(0), Ref(1)


@dataclass(frozen=True, eq=False)
class _First:
    """The value that memory was taken for, as a tensor in that memory."""

    x: Tensor
    ref: Ref

    @property
    def dtype(self) -> torch.dtype:
        return self.x.dtype

    @property
    def at(self) -> Tensor | None:
        """Its places; None where entries share one."""
        return places(self.x)


@dataclass(eq=False)
class Recorder(TorchDispatchMode):
    """Writes operations down while it is active. `expansions` are operations to be replaced by simpler ones.

    With `every`, operations on data alone are written down too, if they compute numbers. With `lookup`, entries may be
    looked up by whole numbers of an input: their count does not depend on them.
    """

    expansions: dict[str, Expand]
    every: bool = False
    lookup: bool = False
    operations: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refs: dict[Any, Ref] = {}
        self._storages: dict[int, object] = {}  # of what depends on w or λ; kept, so that no address is used twice
        self._own: dict[int, object] = {}  # taken by the function, for numbers
        self._sealed: set[int] = set()  # not to be written into
        self._first: dict[int, _First] = {}
        self._memories: dict[int, Memory[Ref | Tensor]] = {}  # of what was written into
        self._of_data: set[int] = set()  # operations on data alone
        self.reason = ""

    def start(self, *inputs: Tensor) -> None:
        """Name the inputs."""
        for x in inputs:
            self._add("input", (), {}, None, (x,), "")
            self.seal(x)

    def ref(self, x: Tensor) -> Ref | None:
        """Which value a tensor is; None for data."""
        storage = _storage(x)
        if storage is None or storage._cdata not in self._storages:
            return None
        ref = self._refs.get(_key(x))
        if ref is None and storage._cdata in self._memories:
            return self._read(x, self._memories[storage._cdata])
        if ref is None:
            raise self._decline("memory that depends on w or λ is looked at in a way that was not recorded")
        return ref

    def _read(self, x: Tensor, memory: Memory[Ref | Tensor]) -> Ref | None:
        """What a tensor holds in memory that was written into; None if that is numbers alone."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            places_read = places(x) if x.dtype == memory.dtype else None
            reading = None if places_read is None else memory.read(places_read)
        if reading is None:
            raise self._decline("memory that was written in place is looked at in a way that is not followed")
        if not any(isinstance(source, Ref) for source in reading.sources):
            return None
        flat = [self._flat(source) if isinstance(source, Ref) else source for source in reading.sources]
        if reading.in_order and isinstance(flat[0], Ref):
            ref = self._emit(torch.ops.aten.reshape.default, (flat[0], list(x.shape)), x.shape)
        else:
            length = sum(_length(source, self.operations) for source in flat)
            joined = (
                flat[0] if len(flat) == 1 else self._emit(torch.ops.aten.cat.default, (flat,), torch.Size([length]))
            )
            ref = self._emit(torch.ops.aten.index.Tensor, (joined, [reading.index]), x.shape)
        self._refs[_key(x)] = ref
        return ref

    def _flat(self, ref: Ref) -> Ref:
        shape = self.operations[ref.node].shapes[ref.item]
        return ref if len(shape) == 1 else self._emit(torch.ops.aten.reshape.default, (ref, [-1]), [shape.numel()])

    def _emit(self, func: Any, args: tuple[Any, ...], shape: Any) -> Ref:
        """Write down an operation that only moves numbers, and is not run."""
        index = self._next()
        name = func._schema.name.removeprefix("aten::")
        self.operations.append(Operation(name, args, {}, (torch.Size(shape),), func, current_line()))
        return Ref(index)

    def _next(self) -> int:
        if len(self.operations) >= MOST_OPERATIONS:
            raise self._decline(f"more than {MOST_OPERATIONS} operations")
        return len(self.operations)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            tensors = [x for x in leaves(args, kwargs) if isinstance(x, Tensor)]
            if any(x.is_meta for x in tensors):  # PyTorch asks for a shape: there are no numbers in it
                return func(*args, **kwargs)
            if torch.Tag.nondeterministic_seeded in func.tags:
                raise self._decline(f"{func}: random numbers")
            name = func._schema.name.removeprefix("aten::")
            if name == "detach_" and not any(self._varies(x) for x in tensors):  # no number is written
                return func(*args, **kwargs)
            if name == "detach":
                self.seal(args[0])
            depends = any(self.ref(x) is not None for x in tensors)
            if func._schema.is_mutable and name not in RESHAPED and (depends or self._is_followed(tensors)):
                return self._write(func, name, args, kwargs, tensors)
            if name in CONSTANTS and func.namespace == "aten":
                return self._of_numbers(func, func(*args, **kwargs), tensors)
            if not depends and not self._computes(func, args, kwargs, tensors):
                return self._of_numbers(func, func(*args, **kwargs), tensors)
            if name in RESHAPED and func.namespace == "aten":  # `vector @ matrix` ends in one
                return self._reshaped(func, RESHAPED[name], args, kwargs, tensors)
            self._refuse_unusable(func, name, tensors)
            if name != "index" or any(self._may_choose_a_shape(x) for x in args[1]):
                self._refuse_numbers(func)
            if name in self.expansions:
                with self:
                    result = self.expansions[name](*args, **kwargs)
                if result is not NotImplemented:
                    return result
            result = func(*args, **kwargs)
            results = tuple(result) if isinstance(result, tuple | list) else (result,)
            self._add(name, args, kwargs, func, results, current_line())
            return result

    def _of_numbers(self, func: Any, result: Any, tensors: list[Tensor]) -> Any:
        """The result of an operation on numbers; memory that it took is the function's own."""
        if func.namespace != "aten":
            return result
        given = {storage._cdata for x in tensors if (storage := _storage(x)) is not None}
        for x in tree_leaves(result):
            storage = _storage(x) if isinstance(x, Tensor) else None
            if storage is not None and storage._cdata not in given and storage._cdata not in self._storages:
                self._own[storage._cdata] = storage
        return result

    def _is_followed(self, tensors: list[Tensor]) -> bool:
        """Is one of them in memory that depends on w or λ, even if its own places hold numbers?"""
        return any((storage := _storage(x)) is not None and storage._cdata in self._storages for x in tensors)

    def seal(self, x: Tensor) -> None:
        """Its memory is not to be written into."""
        storage = _storage(x)
        if storage is not None:
            self._sealed.add(storage._cdata)

    def _write(self, func: Any, name: str, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """An operation that writes into its first argument: recorded as the one that does not."""
        plain = out_of_place(func, name)
        if plain is None or self.every:  # data are values too then, and their memory is not followed
            raise self._decline(f"{func} writes in place")
        self._refuse_unusable(func, name, tensors, writes=True)
        x: Tensor = args[0]
        memory, at, key = self._memory(func, x), places(x), _key(x)
        if at is None or any(_key(y)[0] == key[0] and _key(y) != key and _meet(at, places(y)) for y in tensors):
            raise self._decline(f"{func} writes in place, into entries that share memory")
        with self:
            value = cast(plain(*args, **kwargs), x)
        ref = self.ref(value)
        kept = value.detach().clone()
        result = func(*args, **kwargs)
        if value.shape != x.shape or not torch.allclose(kept, x.detach(), rtol=SAME, equal_nan=True):
            raise self._decline(f"{func} writes in place, and not what {name.removesuffix('_')} returns")
        memory.write(at, ref if ref is not None else kept.reshape(-1))
        self._memories[key[0]], self._storages[key[0]] = memory, x.untyped_storage()
        self._refs = {other: known for other, known in self._refs.items() if other[0] != key[0]}
        if ref is not None:
            self._refs[key] = ref
        return result

    def _memory(self, func: Any, x: Tensor) -> Memory[Ref | Tensor]:
        """What the storage of x holds now, if that may be written into."""
        cdata = _key(x)[0]
        if cdata in self._sealed:
            raise self._decline(f"{func} writes in place, into w, λ, or what is also cut off from its derivative")
        memory = self._memories.get(cdata)
        if memory is None:
            memory = Memory.of(x)
            if cdata in self._first:
                taken = self._first[cdata]
                if taken.at is not None and taken.dtype == x.dtype:
                    memory.write(taken.at, taken.ref)
            elif cdata in self._own:
                every = x.detach().as_strided((len(memory.where),), (1,), 0).clone()
                memory.write(torch.arange(len(memory.where)), every)
            else:
                raise self._decline(f"{func} writes in place, into memory that the function did not take itself")
        if memory.dtype != x.dtype:
            raise self._decline(f"{func} writes in place, into memory of {memory.dtype}")
        return memory

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
        self._add(name, (before, *args[1:]), kwargs, plain, (result,), current_line())
        return result

    def cut(self, x: Tensor) -> Tensor:
        """A copy of a tensor whose derivative is cut off."""
        with torch._C._DisableTorchDispatch():
            copy = x.clone()
            self._add(CUT, (x,), {}, None, (copy,), current_line())
        self.seal(copy)  # a copy here, and none where the function runs
        return copy

    def matrix_product(self, matrix: Any, x: Tensor, run: Callable[[Tensor, Any], Tensor]) -> Tensor | None:
        """The product of a matrix with a tensor that depends on w or λ, as one operation; None for data."""
        with torch._C.DisableTorchFunction():
            if self.ref(x) is None:
                return None
            if not torch.is_grad_enabled():
                raise self._decline("a product with a sparse matrix under no_grad: its derivative is cut")
            with torch._C._DisableTorchDispatch():
                result = run(x, matrix)
                self._add(MATRIX, (x, matrix), {}, run, (result,), current_line())
            return result

    def _add(self, name: str, args: Any, kwargs: Any, func: Any, results: tuple[Any, ...], line: str) -> None:
        def of(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            return self.ref(x) or self._numbers(x)

        shapes = tuple(x.shape if isinstance(x, Tensor) else torch.Size() for x in results)
        recorded_args, recorded_kwargs = changed(of, args, kwargs)
        operation = Operation(name, recorded_args, recorded_kwargs, shapes, func, line)
        index = self._next()  # after the arguments: to read one may be an operation too
        if name != "input" and all(ref.node in self._of_data for ref in operation.refs()):
            self._of_data.add(index)
        self.operations.append(operation)
        for item, x in enumerate(results):
            if isinstance(x, Tensor):
                storage = _storage(x)
                if storage is None:
                    raise self._decline(f"{func}: a tensor without memory of its own")
                if storage._cdata not in self._storages:
                    self._storages[storage._cdata] = storage
                    self._first[storage._cdata] = _First(x.detach(), Ref(index, item))
                self._refs.setdefault(_key(x), Ref(index, item))

    def _numbers(self, x: Tensor) -> Tensor:
        """The numbers of a tensor, for the record; a copy where the function might write over them."""
        storage = _storage(x)
        own = storage is not None and (storage._cdata in self._own or storage._cdata in self._storages)
        return x.detach().clone() if own else x.detach()

    def _refuse_unusable(self, func: Any, name: str, tensors: list[Tensor], *, writes: bool = False) -> None:
        if func.namespace != "aten":
            raise self._decline(f"{func} is not an operation of PyTorch's own")
        if func._schema.is_mutable and not writes:
            raise self._decline(f"{func} writes in place")
        if not torch.is_grad_enabled():
            raise self._decline(
                f"{func} under no_grad, or in an autograd.Function: its derivative is not that of the operation"
            )
        for x in tensors:
            if type(x) not in (Tensor, torch.nn.Parameter, Plugged) or x.is_complex() or x.is_neg():
                raise self._decline(f"{func}: a tensor of type {type(x).__name__}, {x.dtype}")

    def _may_choose_a_shape(self, index: Tensor | None) -> bool:
        """Does the shape of what is indexed depend on numbers of an input, or may it?"""
        if index is None or self.ref(index) is None:
            return False
        return not self.lookup or index.dtype not in (torch.int64, torch.int32)

    def _refuse_numbers(self, func: Any) -> None:
        if not {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}.isdisjoint(func.tags):
            raise self._decline(f"{func}: a number leaves PyTorch, or a shape depends on one")

    def _decline(self, why: str) -> Declined:
        """Keep the first reason, for a function that catches errors."""
        line = current_line()
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
            if not isinstance(result, Tensor):
                return result
            self.recorder.seal(result)
            if self.recorder.ref(result) is None:
                return result
            return self.recorder.cut(result)

    def _refuse_reading(self, name: str, leaves: list[Any]) -> None:
        with torch._C.DisableTorchFunction():
            if any(isinstance(x, Tensor) and self.recorder.ref(x) is not None for x in leaves):
                raise self.recorder._decline(f"{name} takes numbers out of PyTorch")


def recorded_product(matrix: Any, x: Tensor, run: Callable[[Tensor, Any], Tensor]) -> Tensor | None:
    """While a program is recorded, the product of a matrix with what depends on w or λ; None at other times.

    `run(x, matrix)` computes it, and can be differentiated.
    """
    mode = _get_current_dispatch_mode()
    return mode.matrix_product(matrix, x, run) if isinstance(mode, Recorder) else None


def capture(
    function: Callable[..., Tensor], w: Tensor, lam: Tensor, expansions: dict[str, Expand],
    *, every: bool = False, data: Sequence[Tensor] = (),
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
    data : sequence of Tensor
        Further inputs, which the function takes after w and λ; none by default.

    Returns
    -------
    Program
        Its operations, without those that the value does not depend on.

    Raises
    ------
    Declined
        If the function cannot be recorded, with the reason.
    """
    inputs = [x.detach().clone() for x in (w, lam, *data)]
    recorder = Recorder(expansions, every, lookup=bool(data))

    def refuse(refusal: Refusal) -> Refusal:
        recorder._decline(str(refusal))
        return refusal

    recorder.start(*inputs)
    try:
        with _plain(), NoWayOut(refuse, HOOKS), _Cuts(recorder), recorder:
            value = function(*inputs)
    except Exception as error:  # the user's code may raise anything
        text = " ".join(str(error).split())[:200]
        raise Declined(recorder.reason or f"the program cannot be recorded: {text}") from error
    if recorder.reason:  # and the user's code caught it
        raise Declined(recorder.reason)
    output = recorder.ref(value)
    if output is None:
        raise Declined("the value does not depend on w or λ")
    return _without_unused(recorder.operations, output, value.shape, len(inputs))


@contextmanager
def _plain() -> Iterator[None]:
    """The losses and layers of PyTorch themselves, in operations that are not fused."""
    with torch.enable_grad(), losses_as_they_are(), sdpa_kernel(SDPBackend.MATH):
        yield


def _without_unused(operations: list[Operation], output: Ref, shape: torch.Size, inputs: int) -> Program:
    used = {*range(inputs), output.node}
    for i in range(len(operations) - 1, -1, -1):
        if i in used:
            used.update(ref.node for ref in operations[i].refs())
    place = {old: new for new, old in enumerate(sorted(used))}

    def moved(x: Any) -> Any:
        return Ref(place[x.node], x.item) if isinstance(x, Ref) else x

    kept = [operations[i] for i in sorted(used)]
    renumbered = []
    for operation in kept:
        args, kwargs = changed(moved, operation.args, operation.kwargs)
        renumbered.append(replace(operation, args=args, kwargs=kwargs))
    return Program(tuple(renumbered), moved(output), shape)


def _meet(one: Tensor, two: Tensor | None) -> bool:
    """Do two tensors share a place? One that shares places with itself counts as one that does."""
    return two is None or bool(torch.isin(one, two).any())


def _length(source: Ref | Tensor, operations: list[Operation]) -> int:
    shape = source.shape if isinstance(source, Tensor) else operations[source.node].shapes[source.item]
    return shape.numel()


def _storage(x: Tensor) -> Any:
    try:
        return x.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return None


def _key(x: Tensor) -> tuple[Any, ...]:
    return _storage(x)._cdata, x.storage_offset(), tuple(x.shape), x.stride(), x.dtype

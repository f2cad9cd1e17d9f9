"""A dispatch mode that records the operations while a function of w and λ runs.

An in-place operation (`x += b`, `x[i] = b`, `x.exp_()`) on memory that the function itself allocated is recorded as its
out-of-place counterpart, and `memory.py` stores the contents of every place, through whichever view they are read.
Writes into w, λ, the user's data, or memory shared with a result of `detach()` or `.data` are declined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from boundcheck.numerics.program.in_place import cast, out_of_place
from boundcheck.numerics.program.memory import Memory, places
from boundcheck.numerics.program.operations import changed, facts, leaves
from boundcheck.numerics.program.own_memory import OwnMemory
from boundcheck.numerics.program.polynomial_degree import RAISES, makes_index
from boundcheck.numerics.program.recorded_program import CUT, MATRIX, Declined, Operation, Ref, depends_on_w
from boundcheck.numerics.program.tensor_places import FirstValue, Key, key_of, share_a_place, storage_of
from boundcheck.numerics.program.unusable import why_unusable
from boundcheck.numerics.program.user_lines import current_line

RESHAPED = {"squeeze_": "squeeze", "unsqueeze_": "unsqueeze", "t_": "t"}  # in place, but they write no numbers
# operations whose result does not depend on the numbers of their tensor argument
CONSTANTS = frozenset((
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
))  # fmt: skip
MOST_OPERATIONS = 5_000
SAME = 1e-4  # relative difference that rounding alone can cause
Expand = Callable[..., Any]  # an operation written in simpler operations


@dataclass(eq=False)
class Recorder(TorchDispatchMode):
    """Records operations while it is active. `expansions` maps operations to functions that use simpler ones.

    With `every`, operations on data alone are recorded too, if they compute numbers. With `lookup`, integers of an
    input may be used as indices: the number of entries does not depend on their values.
    """

    expansions: dict[str, Expand]
    every: bool = False
    lookup: bool = False
    operations: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refs: dict[Key, Ref] = {}
        # storages of values that depend on w or λ; kept alive, so that no address is used twice
        self._storages: dict[int, object] = {}
        self._own = OwnMemory()
        self._of_data: set[int] = set()  # indices of operations on data alone
        self.reason = ""

    def start(self, *inputs: Tensor) -> None:
        """Record the inputs."""
        for x in inputs:
            self._add("input", (), {}, None, (x,), "")
            self.seal(x)

    def ref(self, x: Tensor) -> Ref | None:
        """Return the recorded value that a tensor holds; None for data."""
        storage = storage_of(x)
        if storage is None or storage._cdata not in self._storages:
            return None
        ref = self._refs.get(key_of(x))
        if ref is None and storage._cdata in self._own.written:
            return self._read(x, self._own.written[storage._cdata])
        if ref is None:
            raise self.decline("memory that depends on w or λ is looked at through a view that was not recorded")
        return ref

    def _read(self, x: Tensor, memory: Memory[Ref | Tensor]) -> Ref | None:
        """Return the contents of a tensor in memory that was written into; None if they are data alone."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            places_read = places(x) if x.dtype == memory.dtype else None
            reading = None if places_read is None else memory.read(places_read)
        if reading is None:
            raise self.decline("memory that was written in place is looked at through a view that cannot be followed")
        if not any(isinstance(source, Ref) for source in reading.sources):
            return None
        flat = [self._flat(source) if isinstance(source, Ref) else source for source in reading.sources]
        if reading.in_order and isinstance(flat[0], Ref):
            ref = self._emit(torch.ops.aten.reshape.default, (flat[0], list(x.shape)), x.shape)
        else:
            length = sum(_length(source, self.operations) for source in flat)
            vector = (
                flat[0] if len(flat) == 1 else self._emit(torch.ops.aten.cat.default, (flat,), torch.Size([length]))
            )
            ref = self._emit(torch.ops.aten.index.Tensor, (vector, [reading.index.to(x.device)]), x.shape)
        self._refs[key_of(x)] = ref
        return ref

    def _flat(self, ref: Ref) -> Ref:
        shape = self.operations[ref.node].shapes[ref.item]
        return ref if len(shape) == 1 else self._emit(torch.ops.aten.reshape.default, (ref, [-1]), [shape.numel()])

    def _emit(self, func: Any, args: tuple[Any, ...], shape: Any) -> Ref:
        """Record an operation that only moves numbers, without running it."""
        index = self._next()
        name = func._schema.name.removeprefix("aten::")
        self.operations.append(Operation(name, args, {}, (torch.Size(shape),), func, current_line()))
        return Ref(index)

    def _next(self) -> int:
        if len(self.operations) >= MOST_OPERATIONS:
            raise self.decline(f"more than {MOST_OPERATIONS} operations")
        return len(self.operations)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return self._recorded(func, args, kwargs or {})
        except Declined:
            raise
        except Exception as error:  # it may depend on numbers, and the function may catch it and take another branch
            text = " ".join(str(error).split())[:100]
            raise self.decline(f"{func} raises {type(error).__name__}: {text}") from error

    def _recorded(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        with torch._C.DisableTorchFunction():
            tensors = [x for x in leaves(args, kwargs) if isinstance(x, Tensor)]
            if any(x.is_meta for x in tensors):  # PyTorch computes a shape: the tensor has no numbers
                return func(*args, **kwargs)
            properties = facts(func)
            if properties.is_random:
                raise self.decline(f"{func}: random numbers")
            name = properties.name
            if name == "detach_" and not any(self._varies(x) for x in tensors):  # writes no numbers
                return func(*args, **kwargs)
            if name == "detach":
                self.seal(args[0])
            depends = any(self.ref(x) is not None for x in tensors)
            if properties.is_mutable and name not in RESHAPED and (depends or self._is_followed(tensors)):
                return self._write(func, name, args, kwargs, tensors)
            if name in CONSTANTS and properties.is_aten:
                return self._of_numbers(func, func(*args, **kwargs), tensors)
            if not depends and not self._computes(func, args, kwargs, tensors):
                return self._of_numbers(func, func(*args, **kwargs), tensors)
            if name in RESHAPED and properties.is_aten:  # `vector @ matrix` ends with such an operation
                return self._reshaped(func, RESHAPED[name], args, kwargs, tensors)
            self._refuse_unusable(func, tensors)
            self._refuse_errors(func, name, kwargs, tensors)
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
        """Return the result of an operation on data. Memory that it allocated belongs to the function."""
        if not facts(func).is_aten:
            return result
        inputs = {storage._cdata for x in tensors if (storage := storage_of(x)) is not None}
        for x in result if isinstance(result, tuple | list) else (result,):
            storage = storage_of(x) if isinstance(x, Tensor) else None
            if storage is not None and storage._cdata not in inputs and storage._cdata not in self._storages:
                self._own.taken[storage._cdata] = storage
        return result

    def _is_followed(self, tensors: list[Tensor]) -> bool:
        """Return True if a tensor lies in memory that depends on w or λ, even if its own places hold data."""
        return any((storage := storage_of(x)) is not None and storage._cdata in self._storages for x in tensors)

    def seal(self, x: Tensor) -> None:
        """Forbid writes into the memory of x."""
        self._own.seal(x)

    def _write(self, func: Any, name: str, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """Run an operation that writes into its first argument, and record its out-of-place counterpart."""
        plain = out_of_place(func, name)
        if plain is None or self.every:  # with `every`, data are recorded values too, and their memory is not followed
            raise self.decline(f"{func} writes in place")
        self._refuse_unusable(func, tensors, writes=True)
        x: Tensor = args[0]
        memory, written, key = self._memory(func, x), places(x), key_of(x)
        if written is None or any(
            key_of(y)[0] == key[0] and key_of(y) != key and share_a_place(written, places(y)) for y in tensors
        ):
            raise self.decline(f"{func} writes in place, into entries that share memory")
        with self:
            value = cast(plain(*args, **kwargs), x)
        ref = self.ref(value)
        numbers = value.detach().clone()
        result = func(*args, **kwargs)
        if value.shape != x.shape or not torch.allclose(numbers, x.detach(), rtol=SAME, equal_nan=True):
            raise self.decline(f"{func} writes in place other numbers than {name.removesuffix('_')} returns")
        memory.write(written, ref if ref is not None else numbers.reshape(-1))
        self._own.written[key[0]], self._storages[key[0]] = memory, x.untyped_storage()
        self._refs = {other: value_ref for other, value_ref in self._refs.items() if other[0] != key[0]}
        if ref is not None:
            self._refs[key] = ref
        return result

    def _memory(self, func: Any, x: Tensor) -> Memory[Ref | Tensor]:
        """Return the contents of the storage of x; decline if the function must not write into it."""
        memory = self._own.of(x)
        if isinstance(memory, str):
            raise self.decline(f"{func} writes in place, {memory}")
        return memory

    def _varies(self, x: Tensor) -> bool:
        """Return True if x depends on w or λ."""
        ref = self.ref(x)
        return ref is not None and ref.node not in self._of_data

    def _computes(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> bool:
        """Return True if an operation on data must be recorded, because it computes numbers. Views do not."""
        if not self.every or not any(x.is_floating_point() for x in tensors):
            return False
        if facts(func).is_view:
            return False
        with torch._C._DisableTorchDispatch():
            results = [x for x in tree_leaves(func(*args, **kwargs)) if isinstance(x, Tensor)]
        return any(x.is_floating_point() for x in results)

    def _reshaped(self, func: Any, name: str, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """Run an operation that changes a shape in place, and record its out-of-place counterpart."""
        plain = getattr(getattr(torch.ops.aten, name), func._overloadname)
        self._refuse_unusable(plain, tensors)
        with torch._C._DisableTorchDispatch():
            original_view = args[0].detach()
        result = func(*args, **kwargs)
        self._add(name, (original_view, *args[1:]), kwargs, plain, (result,), current_line())
        return result

    def cut(self, x: Tensor) -> Tensor:
        """Return a copy of a tensor, and record that its derivative is cut off."""
        with torch._C._DisableTorchDispatch():
            copy = x.clone()
            self._add(CUT, (x,), {}, None, (copy,), current_line())
        self.seal(copy)  # without the recorder, the function gets a view instead of this copy
        return copy

    def matrix_product(self, matrix: Any, x: Tensor, run: Callable[[Tensor, Any], Tensor]) -> Tensor | None:
        """Compute the product of a matrix with a tensor that depends on w or λ, as one operation; None for data."""
        with torch._C.DisableTorchFunction():
            if self.ref(x) is None:
                return None
            if not torch.is_grad_enabled():
                raise self.decline("a product with a sparse matrix under no_grad: its derivative is cut")
            with torch._C._DisableTorchDispatch():
                result = run(x, matrix)
                self._add(MATRIX, (x, matrix), {}, run, (result,), current_line())
            return result

    def _add(self, name: str, args: Any, kwargs: Any, func: Any, results: tuple[Any, ...], line: str) -> None:
        def recorded(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            return self.ref(x) or self._numbers(x)

        shapes = tuple(x.shape if isinstance(x, Tensor) else torch.Size() for x in results)
        recorded_args, recorded_kwargs = changed(recorded, args, kwargs)
        operation = Operation(name, recorded_args, recorded_kwargs, shapes, func, line)
        index = self._next()  # after the arguments, because reading an argument may record an operation
        if name != "input" and all(ref.node in self._of_data for ref in operation.refs()):
            self._of_data.add(index)
        self.operations.append(operation)
        for item, x in enumerate(results):
            if isinstance(x, Tensor):
                storage = storage_of(x)
                if storage is None:
                    raise self.decline(f"{func}: a tensor without memory of its own")
                key, ref = key_of(x), Ref(index, item)
                if storage._cdata not in self._storages:
                    self._storages[storage._cdata] = storage
                    self._own.first[storage._cdata] = FirstValue(key, ref)
                self._refs.setdefault(key, ref)

    def _numbers(self, x: Tensor) -> Tensor:
        """Return the numbers of a tensor for the record; a copy if the function might overwrite them."""
        storage = storage_of(x)
        own = storage is not None and (storage._cdata in self._own.taken or storage._cdata in self._storages)
        return x.detach().clone() if own else x.detach()

    def _refuse_unusable(self, func: Any, tensors: list[Tensor], *, writes: bool = False) -> None:
        if reason := why_unusable(func, tensors, writes=writes):
            raise self.decline(reason)

    def _refuse_errors(self, func: Any, name: str, kwargs: dict[str, Any], tensors: list[Tensor]) -> None:
        """Decline an operation that may raise an error at some w, as the function may catch it and branch on it."""
        if not (name in RAISES or makes_index(name, kwargs)):
            return
        if any(depends_on_w(ref, self.operations) for x in tensors if (ref := self.ref(x)) is not None):
            operation = f"{name} to {kwargs['dtype']}" if kwargs.get("dtype") else str(func)
            raise self.decline(f"{operation}: an error may depend on numbers of w")

    def _may_choose_a_shape(self, index: Tensor | None) -> bool:
        """Return True if the shape of the result may depend on the numbers of this index."""
        if index is None or self.ref(index) is None:
            return False
        return not self.lookup or index.dtype not in (torch.int64, torch.int32)

    def _refuse_numbers(self, func: Any) -> None:
        if facts(func).chooses:
            raise self.decline(f"{func}: a number leaves PyTorch, or a shape depends on one")

    def decline(self, why: str) -> Declined:
        """Return the exception to raise. The first reason is kept, because the function may catch the exception."""
        line = current_line()
        self.reason = self.reason or (f"{why}, {line}" if line else why)
        return Declined(self.reason)


def _length(source: Ref | Tensor, operations: list[Operation]) -> int:
    shape = source.shape if isinstance(source, Tensor) else operations[source.node].shapes[source.item]
    return shape.numel()


def recorded_product(matrix: Any, x: Tensor, run: Callable[[Tensor, Any], Tensor]) -> Tensor | None:
    """Record and compute the product of a matrix with x. None if no program is recorded, or if x is data.

    `run(x, matrix)` computes the product and must be differentiable.
    """
    mode = _get_current_dispatch_mode()
    return mode.matrix_product(matrix, x, run) if isinstance(mode, Recorder) else None

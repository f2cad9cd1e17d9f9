"""A device without the hardware: tensors that say they are elsewhere, and carry real numbers all the same.

A `Pretend` tensor reports the device "lazy", a name that torch knows and has no kernels for, so that nothing need be
registered and nothing of the process changes. Inside is a tensor on the CPU, on which every operation is carried out:
iterations converge, checks give their true answers, and results can be compared with those of the CPU. (Fake tensors
know shapes only, and would need made-up answers to every question about values.) Sparse CSR matrices take part.

Inside `pretending()` everything is refused that a GPU would refuse, and what would work there by a hidden copy:
operations and cotangents that mix devices, CPU index tensors, `copy_` across devices, a CPU generator for a draw on the
device, and tensors made without saying where. What makes the host wait for the device is counted.

What it cannot see: kernels that a real device lacks (float64 on MPS), and Python code that asks for the device by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors  # what torch.set_default_device acts on
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("lazy", 0)
aten = torch.ops.aten


class DeviceError(RuntimeError):
    """What would fail, or cost a hidden copy, on a device."""


class Pretend(Tensor):
    """A tensor on the pretend device."""

    numbers: Tensor  # on the CPU

    @staticmethod
    def __new__(cls, numbers: Tensor) -> Pretend:
        where: dict[str, Any] = {"dtype": numbers.dtype, "layout": numbers.layout, "device": DEVICE}
        if numbers.layout is torch.strided:
            where.update(strides=numbers.stride(), storage_offset=numbers.storage_offset())
        made: Pretend = Tensor._make_wrapper_subclass(cls, numbers.shape, **where)
        made.numbers = numbers
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise DeviceError(f"{func} on a tensor of the pretend device outside of `with pretending()`")

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Pretend({self.numbers!r})"


def host(x: Tensor) -> Tensor:
    """The numbers, for a test to look at; counts as nothing."""
    if not isinstance(x, Pretend):
        raise DeviceError(f"a tensor on {x.device} where one on {DEVICE} was expected")
    return x.numbers


@contextmanager
def pretending() -> Iterator[Counter[str]]:
    """Makes `DEVICE` usable; what it gives counts, by name, what made the host wait for the device."""
    waits: Counter[str] = Counter()
    with torch.autograd.set_multithreading_enabled(False), _Factories(), _Operations(waits):
        yield waits


class _Factories(TorchFunctionMode):
    """Refuses tensors made without a device; a CPU generator and tensors among the arguments say where well enough."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.new_tensor and isinstance(args[0], Pretend):
            func, args, kwargs = torch.tensor, args[1:], {"dtype": args[0].dtype, "device": DEVICE, **kwargs}
        if func not in FACTORIES or any(True for _ in _tensors((*args, *kwargs.values()))):
            return func(*args, **kwargs)
        device = kwargs.get("device")
        if device is None and kwargs.get("generator") is None:
            raise DeviceError(f"torch.{func.__name__} without a device; take device and dtype from the data")
        if func in FROM_DATA and device is not None and torch.device(device).type == DEVICE.type:
            # numbers of Python go through the CPU, where the mode below would not see them
            made: Tensor = func(*args, **{**kwargs, "device": "cpu", "requires_grad": False}).to(DEVICE)
            return made.requires_grad_(kwargs.get("requires_grad", False))
        return func(*args, **kwargs)


FACTORIES = frozenset(_device_constructors())
FROM_DATA = (torch.tensor, torch.asarray)


# what waits for the device: its answer decides on the host, or gives the size of the result, or an error code is read
WAITING = {
    "_local_scalar_dense", "equal", "nonzero", "masked_select", "bincount", "_unique2", "unique_dim",
    "unique_consecutive", "_linalg_check_errors", "_linalg_eigh", "_linalg_svd", "linalg_eig", "_linalg_eigvals",
    "linalg_lstsq",
}  # fmt: skip
METADATA = {"is_same_size", "_has_same_storage_numel", "_new_zeros_with_same_feature_meta"}  # reads no numbers
HOST_SCALARS = {"where", "copy_", "fill_", "index_put_"}  # take a number from the host, as pointwise operations do


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Carries every operation out on the CPU, after a look at where its arguments are."""

    def __init__(self, waits: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits = waits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        found = list(_tensors((*args, *kwargs.values())))
        pretend = [x for x in found if isinstance(x, Pretend)]
        asked = kwargs.get("device")
        there = bool(pretend) if asked is None else torch.device(asked).type == DEVICE.type
        if there and kwargs.get("generator") is not None:
            raise DeviceError(
                f"{name} on {DEVICE} with a generator on {kwargs['generator'].device}; draw there, then .to"
            )
        if 0 < len(pretend) < len(found) and name not in METADATA:
            _refuse_strangers(func, name, found)
        if asked is not None and found and there != bool(pretend):
            self.waits[f"copy to {asked}"] += 1
        elif pretend and (name in WAITING or (name.startswith("index") and _masked(args))):
            self.waits[name] += 1
        if asked is not None:
            kwargs = {**kwargs, "device": "cpu" if there else asked}
        if name == "_efficientzerotensor":  # zeros without storage, of which forward mode can make no wrapper
            func = aten.zeros.default
        result = func(*_unwrap(args), **{key: _unwrap(value) for key, value in kwargs.items()})
        return _wrap(result, {id(x.numbers): x for x in pretend}) if there else result


def _refuse_strangers(func: Any, name: str, found: list[Tensor]) -> None:
    """Beside tensors on the device there may only be single numbers of the host, read where a GPU would read them."""
    scalars = torch.Tag.pointwise in func.tags or name in HOST_SCALARS
    for i, x in enumerate(found):
        written = func._schema.is_mutable and i == 0
        if not isinstance(x, Pretend) and (x.dim() or written or not scalars):
            raise DeviceError(f"{name} meets a tensor of shape {tuple(x.shape)} on {x.device} and one on {DEVICE}")


def _masked(args: Sequence[Any]) -> bool:
    """Does an index hold truth values? They have to be counted first."""
    return any(x.dtype in (torch.bool, torch.uint8) for part in args[1:2] for x in _tensors([part]))


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _unwrap(value: Any) -> Any:
    if isinstance(value, Pretend):
        return value.numbers
    return [_unwrap(x) for x in value] if isinstance(value, list | tuple) else value


def _wrap(value: Any, known: dict[int, Pretend]) -> Any:
    """Results as pretend tensors; what was written in place is the tensor that came in."""
    if isinstance(value, Tensor):
        same = known.get(id(value))
        reshaped = same is not None and same.shape != value.shape  # as squeeze_ does in a product of vector and matrix
        return Pretend(value) if same is None or reshaped else same
    return type(value)(_wrap(x, known) for x in value) if isinstance(value, list | tuple) else value


DRAWS = {"rand", "randn", "_to_copy"}  # draws are made in double precision, the same for every dtype, and then cast
PRECISION = {
    torch.float32: {torch.float32, torch.complex64},
    torch.float64: {torch.float64, torch.complex128},
}


class DtypeError(RuntimeError):
    """A number of another precision than the problem's."""


class OnlyDtype(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses tensors of another floating-point precision than `dtype`, whether they come in or go out."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name not in DRAWS | METADATA:
            for x in _tensors((*args, *kwargs.values(), result)):
                if x._is_zerotensor() or x.is_meta:  # what forward mode makes of Python numbers
                    continue
                if (x.is_floating_point() or x.is_complex()) and x.dtype not in PRECISION[self.dtype]:
                    raise DtypeError(f"{name} meets {x.dtype} of shape {tuple(x.shape)} in a {self.dtype} problem")
        return result

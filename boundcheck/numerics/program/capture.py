"""Record the operations of a user's function of (w, λ) as a program.

The function runs once, on tensors, while a dispatch mode records every ATen operation with its arguments. No number may
leave PyTorch (`.item()`, `.numpy()`, `if` on a tensor), so the operations cannot depend on values: the function runs
the same operations at every point of the same shape.

A function is declined, with the name of the operation and the line that called it, if it draws random numbers, cuts a
derivative (`detach()`, `no_grad()`, an `autograd.Function` of its own), or takes numbers out of PyTorch. Operations on
which the value does not depend may do all of this except draw random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from boundcheck.numerics.program.batched_losses import losses_as_they_are
from boundcheck.numerics.program.operations import changed
from boundcheck.numerics.program.outside_torch import OUT, leaves_torch, name_of
from boundcheck.numerics.program.recorded_program import Declined, Operation, Program, Ref
from boundcheck.numerics.program.recorder import Expand, Recorder

HOOKS = frozenset(("detach_", "register_hook", "register_post_accumulate_grad_hook"))
DECLINED = OUT | HOOKS
# functions that read numbers without an operation: text, Python numbers, tensors from lists of tensors
READS = frozenset((
    "tensor", "as_tensor", "asarray", "new_tensor", "new", "__float__", "__int__", "__index__", "__complex__",
    "__bool__", "__repr__", "__format__", "const_data_ptr", "__deepcopy__",
))  # fmt: skip


class _Functions(TorchFunctionMode):
    """Declines hooks and functions that take numbers out of PyTorch, and records functions that cut a derivative.

    A result of `detach()` or `.data` gets its own memory.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = name_of(func)
        if name in DECLINED:
            raise self.recorder.decline(str(leaves_torch(name)))
        if name in READS and not (name in ("tensor", "as_tensor", "asarray") and isinstance(args[0], Tensor)):
            self._refuse_reading(name, tree_leaves((args, kwargs)))
        result = func(*args, **(kwargs or {}))
        if name not in ("detach", "data"):
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
                raise self.recorder.decline(f"{name} takes numbers out of PyTorch")


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
        The point at which the function runs.
    expansions : dict of callables by name
        Replacements of operations by simpler ones. Each takes the arguments of the operation.
    every : bool
        Whether operations on data alone are recorded too. By default, their results are stored as constants.
    data : sequence of Tensor
        Further inputs, which the function takes after w and λ; none by default.

    Returns
    -------
    Program
        The operations on which the value depends.

    Raises
    ------
    Declined
        If the function cannot be recorded, with the reason.
    """
    inputs = [x.detach().clone() for x in (w, lam, *data)]
    recorder = Recorder(expansions, every, lookup=bool(data))
    recorder.start(*inputs)
    try:
        with _plain(), _Functions(recorder), recorder:
            value = function(*inputs)
    except Exception as error:  # the user's code may raise anything
        text = " ".join(str(error).split())[:200]
        raise Declined(recorder.reason or f"the program cannot be recorded: {text}") from error
    if recorder.reason:  # the user's code caught the exception
        raise Declined(recorder.reason)
    output = recorder.ref(value)
    if output is None:
        raise Declined("the value does not depend on w or λ")
    return _without_unused(recorder.operations, output, value.shape, len(inputs))


@contextmanager
def _plain() -> Iterator[None]:
    """Run PyTorch's own losses and layers, without fused attention kernels."""
    with torch.enable_grad(), losses_as_they_are(), sdpa_kernel(SDPBackend.MATH):
        yield


def _without_unused(operations: list[Operation], output: Ref, shape: torch.Size, inputs: int) -> Program:
    used = {*range(inputs), output.node}
    for i in range(len(operations) - 1, -1, -1):
        if i in used:
            used.update([ref.node for ref in operations[i].refs()])
    if len(used) == len(operations):
        return Program(tuple(operations), output, shape)
    new_node = {old: new for new, old in enumerate(sorted(used))}

    def renumber(x: Any) -> Any:
        return Ref(new_node[x.node], x.item) if isinstance(x, Ref) else x

    renumbered = []
    for i in sorted(used):
        args, kwargs = changed(renumber, operations[i].args, operations[i].kwargs)
        renumbered.append(replace(operations[i], args=args, kwargs=kwargs))
    return Program(tuple(renumbered), renumber(output), shape)

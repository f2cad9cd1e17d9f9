"""Run a user's function while other tensors replace the parameters of an `nn.Module`.

The tensors are put into the module itself, so the function may do whatever PyTorch allows: call methods of the module,
index it, look at its children, use it from a closure. A parameter that is used in several places is replaced in all of
them. Afterwards the module has its own parameters again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import setitem
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from boundcheck.errors import InputError

Place = tuple[dict[str, Any], str]  # the `_parameters` of a module, and a name in it
Plug = tuple[dict[str, Any], str, Tensor]
Result = TypeVar("Result")
MODES = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)


class Plugged(Tensor):
    """A tensor that replaces a parameter. `isinstance` and `.requires_grad` treat it as a parameter.

    Autograd follows it exactly if it follows the tensor of which this is a view.
    """

    _is_param = True  # `isinstance(…, nn.Parameter)` checks this attribute
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # results are plain tensors

    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        """True, as for a parameter, because users select parameters by it."""
        return True


def as_parameter(piece: Tensor) -> Tensor:
    """Return a view of the piece that counts as a parameter. A tensor of another class than Tensor is unchanged."""
    return piece.as_subclass(Plugged) if type(piece) is Tensor else piece


def plugs(pieces: Iterable[Tensor], places: Sequence[tuple[Place, ...]]) -> list[Plug]:
    """Return which tensor goes where, for the pieces that belong to modules."""
    result: list[Plug] = []
    for piece, of_piece in zip(pieces, places, strict=True):
        if of_piece:
            tensor = as_parameter(piece)
            result.extend((holder, name, tensor) for holder, name in of_piece)
    return result


def run_with(plugged: list[Plug], run: Callable[[], Result]) -> Result:
    """Return `run()`, called while the tensors are plugged in. Afterwards the parameters are restored in any case.

    Each of the two swaps is one call without Python code in between, so Ctrl-C cannot interrupt it halfway.
    """
    holders, names, tensors = zip(*plugged, strict=True)
    originals = [holder[name] for holder, name, _ in plugged]
    try:
        deque(map(setitem, holders, names, tensors), maxlen=0)
        return run()
    finally:
        deque(map(setitem, holders, names, originals), maxlen=0)


def tied(modules: Iterable[nn.Module]) -> dict[int, tuple[Place, ...]]:
    """Return all places in the modules that hold a parameter, by the `id` of the parameter."""
    places: dict[int, dict[tuple[int, str], Place]] = {}
    for module in modules:
        for part in module.modules():
            for name, parameter in part._parameters.items():
                if parameter is not None:
                    places.setdefault(id(parameter), {})[id(part), name] = (part._parameters, name)
    return {key: tuple(of_one.values()) for key, of_one in places.items()}


def by_name(module: nn.Module, values: Sequence[Any]) -> dict[str, Any]:
    """Assign a list of values to the names of the parameters: to all of them, or else to those that are not frozen."""
    parameters = dict(module.named_parameters())
    names = list(parameters)
    if len(values) != len(names):
        names = [name for name in names if parameters[name].requires_grad]
    if len(names) != len(values):
        return {f"[{i}]": value for i, value in enumerate(values)}  # no parameter has such a name
    return dict(zip(names, values, strict=True))


def refuse_unusable(module: nn.Module, name: str) -> None:
    """Refuse modules that are not functions of their parameters, or that hide where the parameters are."""
    for path, part in module.named_modules():
        where = f"{name}: {path or 'the module'}"
        if part.training and isinstance(part, MODES):
            raise InputError(
                f"{where} is a {type(part).__name__} in training mode, so "
                f"a step is not a function of its parameters; call .eval() on the module first"
            )
        if type(part).__name__ == "_WeightNorm":  # in torch 2.13, the derivative of its gradient is wrong
            raise InputError(
                f"{where} is torch's weight_norm, whose second derivatives are not reliable; register a "
                "parametrization of your own that returns g * v / v.norm()"
            )
        for hook in part._forward_pre_hooks.values():
            if kind := _HOOKS.get(type(hook).__name__) or _pruning(hook):
                raise InputError(
                    f"{where} has {kind[0]}, whose weight is not a parameter but is set by a hook; {kind[1]}"
                )
        for key, parameter in part._parameters.items():
            if nn.parameter.is_lazy(parameter):
                raise InputError(f"{where} has a {key} without a shape yet; call the module once on data first")


_HOOKS = {
    "WeightNorm": ("the old weight_norm", "use torch.nn.utils.parametrizations.weight_norm"),
    "SpectralNorm": ("the old spectral_norm", "use torch.nn.utils.parametrizations.spectral_norm and .eval()"),
}


def _pruning(hook: Any) -> tuple[str, str] | None:
    import torch.nn.utils.prune as prune

    if isinstance(hook, prune.BasePruningMethod):
        return "pruned weights", "call torch.nn.utils.prune.remove on them"
    return None


def refuse_changed_buffers(modules: Sequence[tuple[str, nn.Module]], name: str, run: Callable[[], Result]) -> Result:
    """Return `run()`, a call of the user's function `name`. If it changes a buffer, restore the buffer and refuse."""
    buffers = [
        (f"{path}.{prefix}.{key}".replace("..", "."), part._buffers, key, buffer, buffer._version, buffer.clone())
        for path, module in modules
        for prefix, part in module.named_modules()
        for key, buffer in part._buffers.items()
        if buffer is not None
    ]
    changes = []
    try:
        result = run()
    finally:
        for path, holder, key, buffer, version, value in buffers:
            if holder.get(key) is not buffer or buffer._version != version:
                changes.append(path)
                holder[key] = buffer.detach_()
                buffer.copy_(value)
    if changes:
        raise InputError(
            f"{name} changes the buffer {changes[0]}, so it is not a function of its arguments; call .eval() on "
            "the module, or do not change its buffers"
        )
    return result

"""The first call of each of the user's functions: whether its value is usable and depends on the arguments.

The dependence is read from autograd's graph at the start, not from the value of a derivative, which may be 0 there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel import user_functions
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.bilevel.user_functions import Door
from boundcheck.numerics.program import torch_modules

CUT = "detach(), no_grad(), .data, .item(), or another copy of it"


@dataclass(frozen=True)
class FirstCall:
    """The arguments on which a function depends, from its first call."""

    name: str
    on_params: bool
    on_hparams: bool
    on_hparams_by_params: bool  # for a loss: whether its gradient by params depends on hparams; else as `on_hparams`

    def refuse_without_params(self) -> None:
        """Refuse a loss that does not depend on params."""
        if not self.on_params:
            raise InputError(f"{self.name} does not depend on params, says autograd; does it use {CUT}?")


def call(function: Callable[[Tensor, Ready], Tensor], name: str, door: Door, w0: Tensor, lam: Tensor) -> FirstCall:
    """Call one of the user's functions at the start.

    Parameters
    ----------
    function : callable (w, ready) -> Tensor
        The function.
    name : str
        The user's name for the function.
    door : Door
        The conversion of w and λ to the arguments of the function.
    w0, lam : Tensor
        The start.

    Returns
    -------
    FirstCall
        The arguments on which the function depends.

    Raises
    ------
    InputError
        If the value is not finite or has another dtype, if a buffer of a module changes, if the function uses a tensor
        of params or hparams that is not one of its arguments, or if it uses a tensor that an earlier call computed.
    """
    w, lam = (x.detach().clone().requires_grad_() for x in (w0, lam))
    originals = {f"params{path}": x for path, x in door.params.originals().items()}
    originals |= {f"hparams{path}": x for path, x in door.hparams.originals().items()}
    originals = {path: x for path, x in originals.items() if x.requires_grad}
    named_modules = [(f"params{path}", module) for path, module in door.params.modules()]
    named_modules += [(f"hparams{path}", module) for path, module in door.hparams.modules()]
    with torch.enable_grad():
        value = torch_modules.refuse_changed_buffers(named_modules, name, lambda: function(w, door.ready(lam)))
        _refuse_unusable(value, name, w0)
        by_w, by_lam, *by_originals = _grad(value, (w, lam, *originals.values()), name)
        for path, grad in zip(originals, by_originals, strict=True):
            if grad is not None:
                raise InputError(
                    f"{name} uses {path} itself, not the argument that replaces it; take it from the arguments in each "
                    "call, or .detach() it if it is meant to be constant"
                )
        _refuse_kept(function, name, door, (w, lam))
        mixed = by_lam
        if value.dim() == 0 and by_w is not None:
            mixed = _grad(by_w, (lam,), f"the gradient of {name}")[0]
    return FirstCall(name, by_w is not None, by_lam is not None, mixed is not None)


def _refuse_kept(
    function: Callable[[Tensor, Ready], Tensor], name: str, door: Door, before: tuple[Tensor, Tensor]
) -> None:
    """Call the function with new tensors of equal values, and refuse it if it still uses the tensors of before."""
    w, lam = (x.detach().clone().requires_grad_() for x in before)
    again = _grad(function(w, door.ready(lam)), before, name)
    for what, grad in zip(("params", "hparams"), again, strict=True):
        if grad is not None:
            raise InputError(
                f"{name} keeps a tensor that an earlier call computed from {what} (a cache, a cached_property, a "
                "global or an attribute), so it is not a function of its arguments; compute it in each call"
            )


def refuse_without_hparams(inner: FirstCall, outer: FirstCall) -> None:
    """Refuse a lower level that does not depend on λ, because w(λ) would be constant."""
    if inner.on_hparams_by_params:
        return
    if not inner.on_hparams and not outer.on_hparams:
        raise InputError(
            f"neither {inner.name} nor {outer.name} depends on hparams, so the hypergradient is 0 for every method; "
            f"does one use {CUT}?"
        )
    description = f"the gradient of {inner.name} by params" if inner.on_hparams else inner.name
    raise InputError(
        f"{description} does not depend on hparams, so w(λ) is constant and the hypergradient is that of "
        f"{outer.name} alone; does it use {CUT}?"
    )


def refuse_shared(door: Door) -> None:
    """Refuse a parameter that is both in w and in λ."""
    of_params = {id(x): path for path, x in door.params.originals().items() if isinstance(x, torch.nn.Parameter)}
    for path, x in door.hparams.originals().items():
        if id(x) in of_params:
            raise InputError(
                f"hparams{path} and params{of_params[id(x)]} are one parameter; leave it out of one of them, or freeze "
                "it with .requires_grad_(False) in a module"
            )


def _refuse_unusable(value: Tensor, name: str, w0: Tensor) -> None:
    if value.dtype != w0.dtype:
        raise InputError(f"{name} returned {value.dtype} and params are {w0.dtype}; keep one dtype throughout")
    if not bool(torch.isfinite(value).all()):
        value_text = f" = {float(value.detach())}" if value.dim() == 0 else " is not finite"
        raise InputError(f"{name}{value_text} at params and hparams; check the data for NaN and infinity")


def _grad(value: Tensor, inputs: tuple[Tensor, ...], name: str) -> tuple[Tensor | None, ...]:
    """Return the derivatives with their graph; None for inputs on which the value does not depend."""
    if not value.requires_grad:
        return (None,) * len(inputs)

    def differentiate() -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(value.sum(), inputs, create_graph=True, allow_unused=True)

    grads: tuple[Tensor | None, ...] = user_functions.call(differentiate, f"the derivative of {name}")
    return grads

"""Adapter for TorchDEQ: a model with a DEQ layer, z = f(z, x), and a loss. λ are the parameters of the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.trust.adapters.library import library

Loss = Callable[[nn.Module], Tensor]
Solve = Callable[[Callable[..., Any], Any], Any]  # takes f and the start, returns the state that the model then uses
__all__ = ["gradients", "problem"]


def problem(model: nn.Module, loss: Loss, *, name: str = "torchdeq") -> Problem:
    """Make a problem from a model with one DEQ layer and its loss.

    Φ is the function f with which the model calls the DEQ layer, and E is the loss for a given state z instead of the
    equilibrium. The adapter runs the model with a replaced DEQ layer, so the model need not be rewritten.

    Parameters
    ----------
    model : torch.nn.Module
        A model with one layer from `torchdeq.get_deq` that it calls once: `z_out, info = self.deq(f, z0)`.
    loss : callable (model) -> Tensor of shape ()
        A function that runs the model and computes the loss, such as `lambda model: cross_entropy(model(x), y)`.
    name : str
        The name of the problem in reports and messages; "torchdeq" by default.

    Returns
    -------
    Problem
        The problem; w is the state z, and λ are the parameters of the model.

    Raises
    ------
    InputError
        If torchdeq is not installed, if the model has no DEQ layer or several, if the layer is not called exactly
        once, or if `Problem.from_map` raises it.
    UserCodeError
        If the model raises, or its derivatives are not those of autograd.
    """
    layer = _layer(model)
    start = _start(layer, loss, model)

    def fp_map(z: Any, module: nn.Module) -> Any:
        def stop(f: Callable[..., Any], z0: Any) -> Any:
            value = f(z) if isinstance(z, Tensor) else f(*z)
            raise _Reached(value if isinstance(z, Tensor) else list(value))

        with _in_place_of(layer, stop):
            try:
                loss(module)
            except _Reached as reached:
                return reached.args[0]
        raise InputError(f"{name}: the loss did not call the DEQ layer this time; call it once in every forward pass")

    def outer_loss(z: Any, module: nn.Module) -> Tensor:
        with _in_place_of(layer, lambda f, z0: z):
            return loss(module)

    return Problem.from_map(fp_map, outer_loss, start, model, name=name)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """The gradients of a model after `loss.backward()`, by the names of its parameters.

    Parameters
    ----------
    model : torch.nn.Module
        The model, with its gradients in `.grad`.

    Returns
    -------
    dict of str to Tensor
        Copies of the gradients; zeros for parameters without a `.grad`.

    Raises
    ------
    InputError
        If no parameter has a `.grad`.

    Examples
    --------
    >>> import torch
    >>> import boundcheck as bc
    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> bc.adapters.torchdeq.gradients(model)
    {'weight': tensor([[1., 1.]])}
    """
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    if all(value.grad is None for value in trained.values()):
        raise InputError("no parameter of the model has a .grad; call loss(model).backward() in training mode first")
    return {
        name: torch.zeros_like(value) if value.grad is None else value.grad.detach().clone()
        for name, value in trained.items()
    }


class _Reached(BaseException):  # not an Exception, so that an `except Exception` in the model does not catch it
    """Raised when the DEQ layer is called, to skip the rest of the forward pass."""


@contextmanager
def _in_place_of(layer: nn.Module, solve: Solve) -> Iterator[None]:
    """Replace the layer's forward by `solve`, and return what TorchDEQ returns: the states, and statistics."""

    def forward(f: Callable[..., Any], z0: Any, *unused: Any, **options: Any) -> Any:
        return [solve(f, z0)], defaultdict(lambda: torch.zeros(1))

    before = vars(layer).get("forward")
    layer.forward = forward
    try:
        yield
    finally:
        del layer.forward
        if before is not None:
            layer.forward = before


def _layer(model: nn.Module) -> nn.Module:
    kind = library("torchdeq.core").DEQBase
    layers = [module for module in model.modules() if isinstance(module, kind)]
    if len(layers) != 1:
        raise InputError(f"the model has {len(layers)} DEQ layers; give a model with one, as torchdeq.get_deq makes it")
    layer: nn.Module = layers[0]
    return layer


def _start(layer: nn.Module, loss: Loss, model: nn.Module) -> Any:
    """The state with which the model starts its DEQ layer."""
    starts: list[Any] = []

    def keep(f: Callable[..., Any], z0: Any) -> Any:
        starts.append(z0)
        return z0

    with _in_place_of(layer, keep), torch.no_grad():
        loss(model)
    if len(starts) != 1:
        raise InputError(f"the loss called the DEQ layer {len(starts)} times; call it once")
    return starts[0].detach() if isinstance(starts[0], Tensor) else [z.detach() for z in starts[0]]

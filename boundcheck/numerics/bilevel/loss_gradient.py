"""The gradient ∇₁f of a scalar function, as by `torch.func.grad`, but faster outside of transformations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.torch_refusals import in_words

Function = Callable[[Tensor, Any], Tensor]


def gradient(function: Function) -> Function:
    """Return ∇₁f for a scalar f(w, ready).

    The wrappers of `torch.func.grad` take longer than a small function. Outside of `vmap` and other transformations,
    the same operations run without the wrappers. The result has a graph if w has one.
    """
    in_general = torch.func.grad(function)

    def gradient_at(w: Tensor, ready: Any) -> Tensor:
        keeps = torch.is_grad_enabled()
        if torch._C._functorch.peek_interpreter_stack() is not None or (keeps and not w.requires_grad):
            value: Tensor = in_general(w, ready)
            return value
        with torch.enable_grad():
            x = w.clone() if keeps else w.detach().requires_grad_()
            y = function(x, ready)
            # with a graph, as in `torch.func.grad`: some derivatives have another formula without one
            slope = torch.autograd.grad(y, x, create_graph=True, allow_unused=True)[0] if y.requires_grad else None
        if slope is None:
            return torch.zeros_like(w)
        return slope if keeps else slope.detach()

    return in_words(gradient_at)

"""Calls of the user's functions with one-line errors, and the choice of the step size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from boundcheck.errors import BoundcheckError, InputError, UserCodeError
from boundcheck.numerics.bilevel.flatten import Layout
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.program import torch_modules
from boundcheck.numerics.program.batched_losses import batchable
from boundcheck.numerics.program.torch_modules import Plug
from boundcheck.numerics.program.user_lines import line_of

Result = TypeVar("Result")
SEE = "see Rules in docs/howto/own_problem.md"
VALUES = f"functions may not use numpy, .item() or `if` on values of tensors; {SEE}"
SPARSE = "sparse tensors of torch cannot be batched; use X = bc.SparseMatrix.from_scipy(X, dtype=…) and X @ w"
KEPT = "functions may not keep a tensor from one call to the next, as in a list, a global or an attribute; compute it"
RULES = {  # the remedy, by a part of PyTorch's message
    "escaped?": f"{KEPT} in each call",
    "inplace": f"functions may not write in place into a tensor of data; write x = x + y; {SEE}",
    "random operation": f"functions may not draw random numbers; draw them beforehand; {SEE}",
    "parse": SPARSE,  # matches "Sparse" and "sparse"
    "parameter_and_buffer_dicts": "params is the module itself where a module was given; call it, as in params(X), or "
    "give dict(model.named_parameters()) in its place",
    **dict.fromkeys(("vmap", "Cannot access data pointer", "numpy()", "have storage"), VALUES),
}


@dataclass(frozen=True)
class Door:
    """Converts flat vectors to the arguments of the user's functions. Modules get the parameters of the call."""

    params: Layout
    hparams: Layout
    prepare: Callable[[Any], Ready] | None

    def ready(self, lam: Tensor) -> Ready:
        """Return the second argument of functions of (w, ready): λ itself, or the result of the user's `prepare`."""
        prepare = self.prepare
        if prepare is None:
            return lam
        hparams, plugs = self.hparams.open(lam)
        return _run(plugs, lambda: call(prepare, "prepare", hparams))

    def of_hparams(self, function: Callable[[Any], Any], name: str, ready: Ready) -> Any:
        """Call a user's function of the hyperparameters, or of the values that were prepared from them."""
        argument, plugs = (ready, []) if self.prepare is not None else self.hparams.open(ready)
        return _run(plugs, lambda: call(function, name, argument))

    def of_both(
        self, function: Callable[..., Any], name: str, finish: Callable[[Any], Tensor]
    ) -> Callable[..., Tensor]:
        """Return a user's function as a function of (w, ready).

        `finish` converts the value to a tensor, while modules still have the parameters of the call. Further arguments,
        such as a minibatch, are passed on unchanged.
        """
        function = batchable(function)

        def on_vectors(w: Tensor, ready: Ready, *rest: Any) -> Tensor:
            first, plugs = self.params.open(w)
            second, more = (ready, []) if self.prepare is not None else self.hparams.open(ready)
            if not plugs and not more:
                return finish(call(function, name, first, second, *rest))
            return torch_modules.run_with(plugs + more, lambda: finish(call(function, name, first, second, *rest)))

        return on_vectors


def _run(plugs: list[Plug], run: Callable[[], Result]) -> Result:
    return torch_modules.run_with(plugs, run) if plugs else run()


def step_of(
    step_size: float | Callable[[Any], Tensor] | None,
    inner_at: Callable[[Tensor, Ready], Tensor],
    w0: Tensor,
    lam: Tensor,
    door: Door,
) -> float | Callable[[Ready], Tensor]:
    """Return the step as a number or a function of the prepared values. The default is that of `default_step`."""
    if callable(step_size):
        result = door.of_hparams(step_size, "step_size", door.ready(lam))
        value = torch.as_tensor(result)
        if value.numel() != 1 or not bool(0 < value < float("inf")):
            raise InputError(f"step_size returned {what(result)}; return one positive number")
        function = step_size
        return lambda ready: scalar(torch.as_tensor(door.of_hparams(function, "step_size", ready)), "step_size")
    if step_size is not None:
        if isinstance(step_size, bool) or not isinstance(step_size, int | float) or not 0 < step_size < float("inf"):
            raise InputError(f"step_size = {step_size!r} is not a step; give a positive number")
        return float(step_size)
    from boundcheck.numerics.bilevel.default_step import default_step  # here, because it imports this module

    return default_step(lambda w, lam: inner_at(w, door.ready(lam)), w0, lam)


def call(function: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """Call a function. Its errors become one line, with the place in the user's code and the remedy."""
    try:
        return function(*arguments)
    except BoundcheckError:
        raise
    except Exception as error:
        raise UserCodeError(f"{name} {raised(error, RULES)}") from error


def raised(error: Exception, remedies: Mapping[str, str]) -> str:
    """Describe an error: its type and message, the line of the user's code, and the remedy if there is one."""
    text, line = " ".join(str(error).split()), line_of(error)
    misspelt = isinstance(error, AttributeError | NameError | LookupError)  # a name in the user's code, not torch
    remedy = None if misspelt else next((remedy for sign, remedy in remedies.items() if sign in text), None)
    place = f" ({line})" if line else ""
    if remedy is None:
        return f"raised {type(error).__name__}: {text[:300]}{place}"
    return f"raised {type(error).__name__}: {text[:100]}{'…' if len(text) > 100 else ''}{place}; {remedy}"


def what(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{float(value.detach()):g}" if value.numel() == 1 else f"a tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def scalar(value: Any, name: str) -> Tensor:
    """Return the value of a loss, which must be one number, as a 0-dimensional tensor."""
    if not isinstance(value, Tensor) and hasattr(value, "__float__"):
        raise InputError(f"{name} returned {what(value)}; return a 0-d tensor, without .item()")
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise InputError(f"{name} returned {what(value)}; return one number, as in .sum() or .mean()")
    return value.reshape(())

"""Calling what users bring: their functions, with errors in one line, and the step size where they give none."""

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
RULES = {  # what to do, by a word of the message of torch
    "escaped?": f"{KEPT} in each call",
    "inplace": f"functions may not write in place into a tensor of data; write x = x + y; {SEE}",
    "random operation": f"functions may not draw random numbers; draw them beforehand; {SEE}",
    "parse": SPARSE,  # Sparse, sparse
    "parameter_and_buffer_dicts": "params is the module itself where a module was given; call it, as in params(X), or "
    "give dict(model.named_parameters()) in its place",
    **dict.fromkeys(("vmap", "Cannot access data pointer", "numpy()", "have storage"), VALUES),
}


@dataclass(frozen=True)
class Door:
    """How flat vectors become what users' functions receive, with modules that hold the parameters of the call."""

    params: Layout
    hparams: Layout
    prepare: Callable[[Any], Ready] | None

    def ready(self, lam: Tensor) -> Ready:
        """What the functions of (w, ready) take second: λ itself, or what the user's `prepare` makes of it."""
        prepare = self.prepare
        if prepare is None:
            return lam
        given, plugs = self.hparams.open(lam)
        return _run(plugs, lambda: call(prepare, "prepare", given))

    def of_hparams(self, function: Callable[[Any], Any], name: str, ready: Ready) -> Any:
        """A user's function of the hyperparameters, or of what was prepared from them."""
        given, plugs = (ready, []) if self.prepare is not None else self.hparams.open(ready)
        return _run(plugs, lambda: call(function, name, given))

    def of_both(
        self, function: Callable[..., Any], name: str, finish: Callable[[Any], Tensor]
    ) -> Callable[..., Tensor]:
        """A user's function as one of (w, ready); `finish` makes a tensor of its value, while modules hold w still.

        Further arguments, such as a minibatch, are passed on as they are.
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
    """The step as a number or a function of what is prepared; by default one that contracts where its iterates go."""
    if callable(step_size):
        given = door.of_hparams(step_size, "step_size", door.ready(lam))
        value = torch.as_tensor(given)
        if value.numel() != 1 or not bool(0 < value < float("inf")):
            raise InputError(f"step_size returned {what(given)}; return one positive number")
        function = step_size
        return lambda ready: scalar(torch.as_tensor(door.of_hparams(function, "step_size", ready)), "step_size")
    if step_size is not None:
        if isinstance(step_size, bool) or not isinstance(step_size, int | float) or not 0 < step_size < float("inf"):
            raise InputError(f"step_size = {step_size!r} is not a step; give a positive number")
        return float(step_size)
    from boundcheck.numerics.bilevel.default_step import default_step  # only here: it needs autograd, which needs this

    return default_step(lambda w, lam: inner_at(w, door.ready(lam)), w0, lam)


def call(function: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """The value of a function; what it raises becomes one line, with the place in the user's code and the remedy."""
    try:
        return function(*arguments)
    except BoundcheckError:
        raise
    except Exception as error:
        raise UserCodeError(f"{name} {raised(error, RULES)}") from error


def raised(error: Exception, remedies: Mapping[str, str]) -> str:
    """What was raised, where in the user's code, and the remedy for it, if there is one."""
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
    """The one number that a loss must return, as a 0-dimensional tensor."""
    if not isinstance(value, Tensor) and hasattr(value, "__float__"):
        raise InputError(f"{name} returned {what(value)}; return a 0-d tensor, without .item()")
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise InputError(f"{name} returned {what(value)}; return one number, as in .sum() or .mean()")
    return value.reshape(())

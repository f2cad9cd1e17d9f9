"""Calling what users bring: their functions, with errors in one line, and the step size where they give none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.errors import BoundcheckError, InputError, UserCodeError
from boundcheck.layout import Layout

Ready = Any  # what a user's `prepare` returns, or λ itself


def hparams(known: Layout, prepare: Callable[[Any], Ready] | None, ready: Ready) -> Any:
    """What a user's function receives second: its own structure of λ, or what its `prepare` returned."""
    return known.unflatten(ready) if prepare is None else ready


def prepared_once(
    inner_at: Callable[[Tensor, Ready], Tensor],
    w0: Tensor,
    lam: Tensor,
    known: Layout,
    prepare: Callable[[Any], Ready] | None,
) -> Ready:
    """What is prepared at the start, after ℓ was evaluated there once, so that a mistake in it is told as its own."""
    ready = lam if prepare is None else call(prepare, "prepare", known.unflatten(lam))
    value = inner_at(w0, ready)
    if not bool(torch.isfinite(value)):
        raise InputError(f"inner_loss = {float(value)} at params and hparams; check the data for NaN and infinity")
    return ready


def step_of(
    step_size: float | Callable[[Any], Tensor] | None,
    inner_at: Callable[[Tensor, Ready], Tensor],
    w0: Tensor,
    lam: Tensor,
    known: Layout,
    prepare: Callable[[Any], Ready] | None,
) -> float | Callable[[Any], Tensor]:
    """The step as a number or a checked function; 2/(μ+L) of the Hessian at the start where none is given."""
    if callable(step_size):
        ready = prepared_once(inner_at, w0, lam, known, prepare)
        given = call(step_size, "step_size", hparams(known, prepare, ready))
        value = torch.as_tensor(given)
        if value.numel() != 1 or not bool(0 < value < float("inf")):
            raise InputError(f"step_size returned {what(given)}; return one positive number")
        return lambda hparams: scalar(torch.as_tensor(step_size(hparams)), "step_size")
    if step_size is not None:
        if isinstance(step_size, bool) or not isinstance(step_size, int | float) or not 0 < step_size < float("inf"):
            raise InputError(f"step_size = {step_size!r} is no step; give a positive number")
        return float(step_size)
    from boundcheck.products import extreme_curvature  # only here: problems do not need autograd otherwise

    ready = prepared_once(inner_at, w0, lam, known, prepare)
    with torch.no_grad():
        found = extreme_curvature(lambda w: inner_at(w, ready), w0)
    if not float(found.L) > 0:
        raise InputError(
            f"the Hessian of inner_loss at params has largest eigenvalue {float(found.L):.3g}, so no step size follows "
            "from it; give step_size=…"
        )
    return float(2 / (found.mu.clamp(min=0) + found.L))


def call(function: Callable[..., Any], name: str, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except BoundcheckError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise UserCodeError(f"{name} raised {type(error).__name__}: {text[:300]}") from error


def what(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{float(value):g}" if value.numel() == 1 else f"a tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def scalar(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise InputError(f"{name} returned {what(value)}; return one number, as in .sum() or .mean()")
    return value.reshape(())

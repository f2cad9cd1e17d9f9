"""Make a `Problem` from a lower level in one of three forms: a loss, a root or a fixed point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem

Function = Callable[[Any, Any], Any]
POWER_STEPS = 30  # power iterations for the norm of a Jacobian; α is 10 % below 1/norm


def problem_of(
    outer_loss: Function,
    params: Any,
    hparams: Any,
    given: Mapping[str, Function | None],
    step_size: float | None,
    name: str,
) -> Problem:
    """Make the problem from the only function in `given` that is not None.

    The keys of `given` are the library's argument names for a loss, for a root F(w, λ) = 0, and for a fixed point, in
    this order. A key starts with "-" if the library has no such argument.
    """
    loss, root, fixed_point = given.values()
    if sum(function is not None for function in given.values()) != 1:
        names = [f"{key}=" for key in given if not key.startswith("-")]
        present = [f"{key}=" for key, function in given.items() if function is not None]
        raise InputError(f"{name}: got {' and '.join(present) or 'no lower level'}; give one of {', '.join(names)}")
    if loss is not None:
        return Problem.from_loss(loss, outer_loss, params, hparams, step_size, name=name)
    if fixed_point is not None:
        return Problem.from_map(with_autograd(fixed_point), outer_loss, params, hparams, name=name)
    assert root is not None
    residual = with_autograd(root)
    alpha = step_of_root(residual, params, hparams) if step_size is None else step_size

    def step(params: Any, hparams: Any) -> Any:
        return pytree.tree_map(lambda w, F: w - alpha * F, params, like(residual(params, hparams), params))

    return Problem.from_map(step, outer_loss, params, hparams, name=name)


def with_autograd(function: Function) -> Function:
    """The same function, in which `torch.autograd.grad(loss, params, create_graph=True)` also works under `vmap`.

    `torch.func.vjp` records a graph for the tensors on which it runs a function, at any depth of transformations.
    """

    def at(params: Any, hparams: Any) -> Any:
        return torch.func.vjp(lambda w: function(w, hparams), params)[0]

    return at


def like(value: Any, params: Any) -> Any:
    """`value` in the structure of `params`; a library may return a tuple for a list or a dict."""
    leaves, spec = pytree.tree_flatten(params)
    values = pytree.tree_leaves(value)
    if len(values) != len(leaves):
        raise InputError(f"the root function returned {len(values)} tensors; return one for each of {len(leaves)}")
    return pytree.tree_unflatten(values, spec)


def step_of_root(root: Function, params: Any, hparams: Any) -> float:
    """An α for which w − αF(w, λ) contracts if ∂₁F is symmetric and definite, positive or negative.

    Every α ≠ 0 has the same fixed point, so α does not affect the hypergradient.
    """
    leaves, spec = pytree.tree_flatten(pytree.tree_map(lambda w: w.detach(), params))
    hparams = pytree.tree_map(lambda h: h.detach(), hparams)

    def F(*w: Tensor) -> tuple[Tensor, ...]:
        return tuple(pytree.tree_leaves(root(pytree.tree_unflatten(list(w), spec), hparams)))

    generator = torch.Generator().manual_seed(0)
    v = [torch.randn(w.shape, generator=generator, dtype=w.dtype).to(w.device) for w in leaves]
    back = torch.func.vjp(F, *leaves)[1]
    norm, sign = 0.0, 1.0
    for _ in range(POWER_STEPS):
        size = _dot(v, v) ** 0.5
        if not 0 < size < float("inf"):
            raise InputError("the Jacobian of the root function has no norm at params; give step_size=")
        v = [x / size for x in v]
        Jv = torch.func.jvp(F, tuple(leaves), tuple(v))[1]
        norm, sign = _dot(Jv, Jv) ** 0.5, 1.0 if _dot(v, Jv) >= 0 else -1.0
        v = list(back(tuple(Jv)))
    return sign * 0.9 / norm


def _dot(x: Any, y: Any) -> float:
    return sum(float((a * b).sum()) for a, b in zip(x, y, strict=True))

"""Adapter for TorchOpt: `custom_root` with an objective or optimality function, and `ImplicitMetaGradientModule`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.trust.adapters.library import library
from boundcheck.trust.adapters.lower_level import Function, problem_of

__all__ = ["gradients", "module_problem", "problem"]


def problem(
    params: Any,
    meta_params: Any,
    outer_loss: Callable[[Any, Any], Tensor],
    *args: Any,
    objective: Callable[..., Tensor] | None = None,
    optimality: Callable[..., Any] | None = None,
    step_size: float | None = None,
    name: str = "torchopt",
) -> Problem:
    """Make a problem from the functions of `torchopt.diff.implicit.custom_root`.

    Parameters
    ----------
    params : Tensor, or tuple, list or dict of tensors
        The start of the lower level, the first argument of your solver.
    meta_params : Tensor, or tuple, list or dict of tensors
        The hyperparameters, argument number 1 of your solver (`argnums=1`).
    outer_loss : callable (params, meta_params) -> Tensor of shape ()
        The outer loss E.
    *args : object
        The other arguments of your solver, such as the data. They are passed to `objective` or `optimality`.
    objective : callable (params, meta_params, *args) -> Tensor of shape (), optional
        The lower-level loss. Give either `objective` or `optimality`; with a loss more can be proved.
    optimality : callable (params, meta_params, *args) -> structure of params, optional
        The function F whose root is the solution, as for `custom_root`.
    step_size : float, optional
        The α of the map w − αF(w, λ); chosen automatically if None.
    name : str
        The name of the problem in reports and messages; "torchopt" by default.

    Returns
    -------
    Problem
        The problem, for `bc.audit`, `bc.enclose` and other functions.

    Raises
    ------
    InputError
        If not exactly one of `objective` and `optimality` is given, or if `Problem.from_loss` raises it.
    UserCodeError
        If a function raises, or its derivatives are not those of autograd.

    Examples
    --------
    >>> import torch
    >>> import boundcheck as bc
    >>> def ridge(params, l2reg, data):
    ...     X, y = data
    ...     return ((X @ params - y) ** 2).mean() / 2 + l2reg * (params**2).sum() / 2
    >>> def outer_loss(params, l2reg):
    ...     return ((params - 1) ** 2).mean()
    >>> data = torch.eye(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    >>> w, l2reg = torch.zeros(3, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    >>> bc.adapters.torchopt.problem(w, l2reg, outer_loss, data, optimality=torch.func.grad(ridge))
    Problem(torchopt, d=3, n=1, fixed-point, float64 on cpu)
    """
    given = {"objective": _with(objective, args), "optimality": _with(optimality, args), "-fixed_point": None}
    return problem_of(outer_loss, params, meta_params, given, step_size, name)


def module_problem(
    net: nn.Module,
    outer_loss: Callable[[nn.Module], Tensor],
    *args: Any,
    step_size: float | None = None,
    name: str = "torchopt",
) -> Problem:
    """Make a problem from an `ImplicitMetaGradientModule`.

    Parameters
    ----------
    net : torchopt.nn.ImplicitMetaGradientModule
        The module, before or after `net.solve(*args)`. It may have an `objective`, or only an `optimality`.
    outer_loss : callable (net) -> Tensor of shape ()
        The outer loss E of the module with its parameters.
    *args : object
        The arguments of `net.solve`, such as a batch. They are passed to `net.objective` or `net.optimality`.
    step_size : float, optional
        The step of the lower level; chosen automatically if None.
    name : str
        The name of the problem in reports and messages; "torchopt" by default.

    Returns
    -------
    Problem
        The problem; w are the parameters of the module by name, and λ its meta-parameters by name.

    Raises
    ------
    InputError
        If torchopt is not installed, if `net` is another kind of module, or if `Problem.from_loss` raises it.
    UserCodeError
        If a function raises, or its derivatives are not those of autograd.
    """
    kind, stateless = library("torchopt.nn").ImplicitMetaGradientModule, library("torchopt.nn.stateless")
    if not isinstance(net, kind):
        raise InputError(f"net is a {type(net).__name__}; give a torchopt.nn.ImplicitMetaGradientModule")

    def with_values(function: Callable[[], Any]) -> Function:
        def at(params: dict[str, Tensor], meta_params: dict[str, Tensor]) -> Any:
            with stateless.reparametrize(net, {**params, **meta_params}):
                return function()

        return at

    has_loss = type(net).objective is not kind.objective  # then `optimality` is the gradient of the objective
    given = {
        "objective": with_values(lambda: net.objective(*args)) if has_loss else None,
        "optimality": None if has_loss else with_values(lambda: net.optimality(*args)),
        "-fixed_point": None,
    }
    params = {name: value.detach() for name, value in net.named_parameters()}
    meta_params = {name: value.detach() for name, value in net.named_meta_parameters()}
    return problem_of(with_values(lambda: outer_loss(net)), params, meta_params, given, step_size, name)


def gradients(net: nn.Module, grads: Sequence[Tensor | None] | None = None) -> dict[str, Tensor]:
    """The hypergradient of an `ImplicitMetaGradientModule`, by the names of its meta-parameters.

    Parameters
    ----------
    net : torchopt.nn.ImplicitMetaGradientModule
        The module.
    grads : sequence of Tensor, optional
        The result of `torch.autograd.grad(loss, tuple(net.meta_parameters()))`; by default the `.grad` of the
        meta-parameters after `loss.backward()`.

    Returns
    -------
    dict of str to Tensor
        Copies of the gradients; zeros for a gradient that is None.

    Raises
    ------
    InputError
        If the numbers of gradients and meta-parameters differ, or if there is no gradient at all.
    """
    named = dict(net.named_meta_parameters())  # type: ignore[operator]
    values = [value.grad for value in named.values()] if grads is None else list(grads)
    if len(values) != len(named):
        raise InputError(f"grads has {len(values)} gradients and the module {len(named)} meta-parameters; give each")
    if all(value is None for value in values):
        raise InputError("no meta-parameter has a gradient; call loss.backward() first, or give grads=")
    return {
        name: torch.zeros_like(meta) if value is None else value.detach().clone()
        for (name, meta), value in zip(named.items(), values, strict=True)
    }


def _with(function: Callable[..., Any] | None, args: Sequence[Any]) -> Function | None:
    if function is None:
        return None
    given = function
    return lambda params, meta_params: given(params, meta_params, *args)

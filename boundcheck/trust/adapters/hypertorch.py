"""Adapter for hypertorch: `fp_map(params, hparams)` and `outer_loss(params, hparams)` of lists of tensors.

The repository is prolearner/hypertorch, its package `hypergrad`. The packages on PyPI with these names are other
libraries. The adapter does not import hypertorch; it only follows its calling convention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.trust.adapters.lower_level import problem_of

Tensors = Sequence[Tensor]
__all__ = ["gradients", "problem"]


def problem(
    params: Tensors,
    hparams: Tensors,
    fp_map: Callable[[Any, Any], Tensors] | None,
    outer_loss: Callable[[Any, Any], Tensor],
    *,
    inner_loss: Callable[[Any, Any], Tensor] | None = None,
    step_size: float | None = None,
    name: str = "hypertorch",
) -> Problem:
    """Make a problem from the arguments of `hypergrad.fixed_point`, `CG` and similar functions.

    `fp_map` may call `torch.autograd.grad(loss, params, create_graph=True)`, as in hypertorch's examples, and may be a
    `GradientDescent` object of hypertorch. It must not log values with `.numpy()` or `.item()`.

    Parameters
    ----------
    params : list of Tensor
        The start of the lower level, or its final parameters.
    hparams : list of Tensor
        The hyperparameters.
    fp_map : callable (params, hparams) -> list of Tensor, or None
        The map Φ; None if you give `inner_loss`.
    outer_loss : callable (params, hparams) -> Tensor of shape ()
        The outer loss E.
    inner_loss : callable (params, hparams) -> Tensor of shape (), optional
        The lower-level loss instead of `fp_map`. The hypergradient is the same, and more of it can be proved.
    step_size : float, optional
        The step for `inner_loss`; chosen automatically if None.
    name : str
        The name of the problem in reports and messages; "hypertorch" by default.

    Returns
    -------
    Problem
        The problem, for `bc.audit`, `bc.enclose` and other functions.

    Raises
    ------
    InputError
        If not exactly one of `fp_map` and `inner_loss` is given, if `fp_map` takes another batch in each call, or if
        `Problem.from_map` or `Problem.from_loss` raises it.
    UserCodeError
        If a function raises, or its derivatives are not those of autograd.

    Examples
    --------
    >>> import torch
    >>> import boundcheck as bc
    >>> X, y = torch.eye(4, dtype=torch.float64), torch.arange(4, dtype=torch.float64)
    >>> def fp_map(params, hparams):
    ...     loss = ((X @ params[0] - y) ** 2).sum() / 2 + (hparams[0] * params[0] ** 2).sum() / 2
    ...     return [params[0] - 0.1 * torch.autograd.grad(loss, params, create_graph=True)[0]]
    >>> def outer_loss(params, hparams):
    ...     return ((2 * X @ params[0] - y) ** 2).sum() / 2
    >>> params = [torch.zeros(4, dtype=torch.float64, requires_grad=True)]
    >>> hparams = [torch.full((4,), 3.0, dtype=torch.float64, requires_grad=True)]
    >>> problem = bc.adapters.hypertorch.problem(params, hparams, fp_map, outer_loss)
    >>> print(f"{bc.enclose(problem, [torch.zeros(4, dtype=torch.float64)]).upper:.3f}")
    0.619
    """
    if fp_map is not None and inner_loss is None and getattr(fp_map, "dim_mult", None) == 1:
        fp_map, inner_loss, step_size = None, _loss_of(fp_map), _step_of(fp_map, hparams, step_size)
    lower_level = {"inner_loss": inner_loss, "-root": None, "fp_map": fp_map}
    return problem_of(outer_loss, list(params), list(hparams), lower_level, step_size, name)


def gradients(hparams: Tensors) -> list[Tensor]:
    """Copy the hypergradient that `hypergrad` stored in the `.grad` of the hyperparameters.

    hypertorch adds to `.grad`: set it to zero or None before each hypergradient.

    Parameters
    ----------
    hparams : list of Tensor
        The hyperparameters, after `hypergrad.fixed_point(…)` or a similar function.

    Returns
    -------
    list of Tensor
        The hypergradient in the structure of `hparams`; zeros for hyperparameters without a `.grad`.

    Raises
    ------
    InputError
        If no hyperparameter has a `.grad`.

    Examples
    --------
    >>> import torch
    >>> import boundcheck as bc
    >>> lam = torch.ones(2, requires_grad=True)
    >>> (lam**2).sum().backward()
    >>> bc.adapters.hypertorch.gradients([lam])
    [tensor([2., 2.])]
    """
    if all(h.grad is None for h in hparams):
        raise InputError("no hparam has a .grad; call hypergrad.fixed_point(…) or CG(…) with set_grad=True first")
    return [torch.zeros_like(h) if h.grad is None else h.grad.detach().clone() for h in hparams]


def _loss_of(optimiser: Any) -> Callable[[Any, Any], Tensor]:
    """The loss of hypertorch's `GradientDescent` with its data; raises InputError if the data change between calls."""
    data = optimiser.data_iterator
    if data is None:
        return optimiser.loss_f  # type: ignore[no-any-return]
    if not isinstance(data, repeat):
        raise InputError("fp_map takes another batch in each call; give its data as one batch, data_or_iter=(x, y)")
    batch = next(data)
    return lambda params, hparams: optimiser.loss_f(params, hparams, batch)


def _step_of(optimiser: Any, hparams: Tensors, step_size: float | None) -> float:
    return float(optimiser.step_size_f(hparams)) if step_size is None else step_size

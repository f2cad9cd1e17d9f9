"""Adapter for JAXopt and plain JAX: objective, root or fixed point as JAX functions, translated to torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boundcheck.errors import InputError, UserCodeError
from boundcheck.numerics.bilevel import user_functions
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.trust.adapters import jax_program
from boundcheck.trust.adapters.library import library
from boundcheck.trust.adapters.lower_level import Function, problem_of

__all__ = ["problem"]


def problem(
    params: Any,
    hparams: Any,
    outer_loss: Callable[[Any, Any], Any],
    *args: Any,
    fun: Callable[..., Any] | None = None,
    optimality_fun: Callable[..., Any] | None = None,
    fixed_point_fun: Callable[..., Any] | None = None,
    step_size: float | None = None,
    name: str = "jaxopt",
) -> Problem:
    """Make a problem from JAX functions, as for JAXopt's solvers, `custom_root` and `custom_fixed_point`.

    JAX records the operations of each function, and torch executes them. The problem is in float64 with the numbers of
    your arrays. So if JAX computes in float32, its rounding is part of the error of your hypergradient. Gradients are
    those of the values: `stop_gradient` has no effect.

    Parameters
    ----------
    params : array, or tuple, list or dict of arrays
        The start of the lower level, the first argument of your solver.
    hparams : array, or tuple, list or dict of arrays
        The hyperparameters, the second argument of your functions.
    outer_loss : callable (params, hparams) -> array of shape ()
        The outer loss E, in JAX.
    *args : object
        The other arguments of your functions, such as the data.
    fun : callable (params, hparams, *args) -> array of shape (), optional
        The objective. Give exactly one of `fun`, `optimality_fun` and `fixed_point_fun`.
    optimality_fun : callable (params, hparams, *args) -> structure of params, optional
        The function F whose root is the solution, as for `jaxopt.implicit_diff.custom_root`.
    fixed_point_fun : callable (params, hparams, *args) -> structure of params, optional
        The map whose fixed point is the solution, as for `custom_fixed_point`.
    step_size : float, optional
        The α of the map w − αF(w, λ); chosen automatically if None.
    name : str
        The name of the problem in reports and messages; "jaxopt" by default.

    Returns
    -------
    Problem
        The problem. Convert your hypergradient with `bc.adapters.from_numpy(problem, g)`.

    Raises
    ------
    InputError
        If jax is not installed, if not exactly one of the three functions is given, if an operation of a function has
        no translation, or if `Problem.from_map` or `Problem.from_loss` raises it.
    UserCodeError
        If a function raises, or if the values of the translation differ from the function.
    """
    jax = library("jax")

    def in_torch(function: Callable[..., Any] | None, what: str, arguments: Sequence[Any]) -> Function | None:
        return None if function is None else translated(jax, function, what, params, hparams, arguments)

    lower_level = {
        "fun": in_torch(fun, "fun", args),
        "optimality_fun": in_torch(optimality_fun, "optimality_fun", args),
        "fixed_point_fun": in_torch(fixed_point_fun, "fixed_point_fun", args),
    }
    outer = in_torch(outer_loss, "outer_loss", ())
    assert outer is not None
    w0, lam = (jax.tree_util.tree_map(_number, tree) for tree in (params, hparams))
    return problem_of(outer, w0, lam, lower_level, step_size, name)


def translated(jax: Any, function: Any, what: str, params: Any, hparams: Any, args: Sequence[Any]) -> Function:
    """Translate a JAX function to torch, with the structures of `params` and `hparams`, and compare values with JAX."""
    trees = jax.tree_util

    def applied(params: Any, hparams: Any) -> Any:
        return function(params, hparams, *args)

    recorded, shape = user_functions.call(lambda: jax.make_jaxpr(applied, return_shape=True)(params, hparams), what)
    structure = trees.tree_structure(shape)

    def in_torch(params: Any, hparams: Any) -> Any:
        leaves = trees.tree_leaves((params, hparams))
        return trees.tree_unflatten(structure, jax_program.run(recorded.jaxpr, recorded.consts, leaves))

    for size in (0.0, 1.0):  # compare at the point itself, and at another point where no term is 0 by chance
        shifted = [trees.tree_map(lambda x, size=size: _moved(x, size), tree) for tree in (params, hparams)]
        theirs = trees.tree_leaves(user_functions.call(applied, what, *shifted))
        ours = trees.tree_leaves(in_torch(*(trees.tree_map(_number, tree) for tree in shifted)))
        for left, right in zip(theirs, ours, strict=True):
            _compare(np.asarray(left), right.numpy(), what)
    return in_torch


def _moved(x: Any, size: float) -> np.ndarray:
    array = np.asarray(x)
    return np.asarray(array + size * np.sin(1 + np.arange(array.size)).reshape(array.shape), dtype=array.dtype)


def _compare(theirs: np.ndarray, ours: np.ndarray, what: str) -> None:
    """Raise UserCodeError unless half of the digits of JAX's dtype agree; skipped if JAX's values are not finite."""
    if not np.isfinite(theirs).all():
        return
    close = float(np.finfo(theirs.dtype).eps) ** 0.5 if theirs.dtype.kind == "f" else 0.0
    gap = np.abs(theirs.astype(np.float64) - ours).max(initial=0.0)
    if not gap <= close * max(np.abs(theirs).max(initial=0.0), 1.0):
        raise UserCodeError(f"{what}: its translation to torch is {gap:.2g} away; write the problem in torch")


def _number(value: Any) -> Tensor:
    array = np.asarray(value)
    if array.dtype.kind != "f":
        raise InputError(f"an array of params or hparams has dtype {array.dtype}; give floating point numbers")
    return torch.from_numpy(array.astype(np.float64))

"""Convert arrays of any library, such as a hypergradient, to tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel import user_functions
from boundcheck.numerics.bilevel.problem import Problem, require_problem


def from_numpy(
    problem: Problem,
    value: Callable[[Any], Any] | Any,
    *,
    of: Literal["hparams", "params"] = "hparams",
) -> Any:
    """Convert arrays of another library to tensors for `bc.audit` and `bc.enclose`.

    Parameters
    ----------
    problem : Problem
        The problem to which the arrays belong.
    value : callable (hparams) -> arrays, or arrays
        The hypergradient. A function is called with the problem's λ in your structure, as numpy arrays. Arrays are
        objects that `numpy.asarray` accepts, such as JAX arrays, alone or in the structure of the hyperparameters.
    of : {"hparams", "params"}
        The structure of the value: "params" for a solution of the lower level; "hparams" by default.

    Returns
    -------
    Tensor, or structure of tensors
        The same numbers. Lower precision is converted to the precision of the problem, which is exact.

    Raises
    ------
    InputError
        If the numbers have a higher precision than the problem, or are not floating point numbers.
    UserCodeError
        If the function raises.

    Examples
    --------
    >>> import boundcheck as bc
    >>> problem = bc.problems.scalar(q=0.5)
    >>> g = bc.adapters.from_numpy(problem, lambda lam: 2 * lam)
    >>> g.dtype, g.shape
    (torch.float64, torch.Size([1]))
    """
    require_problem(problem)
    if of not in ("hparams", "params"):
        raise InputError(f"of = {of!r} is not known; give 'hparams' or 'params'")
    if callable(value):
        layout = problem.lam_layout
        lam = problem.lam if layout is None else layout.unflatten(problem.lam)
        value = user_functions.call(value, "the hypergradient", _each(lam, lambda x: x.detach().cpu().numpy().copy()))
    return _each(value, lambda x: _tensor(x, problem))


def _each(tree: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _each(value, change) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        values = [_each(value, change) for value in tree]
        return type(tree)._make(values) if hasattr(tree, "_make") else type(tree)(values)
    return change(tree)


def _tensor(value: Any, problem: Problem) -> Tensor:
    array = np.array(value.detach().cpu() if isinstance(value, Tensor) else value)  # a copy
    if array.dtype.kind != "f":
        raise InputError(f"{problem.name}: an array has dtype {array.dtype}; give floating point numbers")
    if array.dtype.itemsize > torch.finfo(problem.dtype).bits // 8:
        raise InputError(
            f"{problem.name}: an array is {array.dtype} and the problem {problem.dtype}; make the problem in float64"
        )
    return torch.from_numpy(array).to(dtype=problem.dtype, device=problem.device)

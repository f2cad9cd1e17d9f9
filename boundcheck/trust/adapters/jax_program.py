"""Translate a recorded JAX function to torch, operation by operation.

An operation without a row in `OPERATIONS` is refused by name. This module does not import JAX; it only reads programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boundcheck.errors import InputError

Value = Tensor | bool  # a truth value that does not depend on numbers is a bool
Operation = Callable[..., Value]


def run(program: Any, constants: Sequence[Any], values: Sequence[Value]) -> list[Value]:
    """Evaluate a recorded program, `jax.make_jaxpr(f)(…).jaxpr`, in torch."""
    known: dict[Any, Value] = dict(zip(program.constvars, map(tensor, constants), strict=True))
    known.update(zip(program.invars, values, strict=True))

    def read(variable: Any) -> Value:
        return tensor(variable.val) if hasattr(variable, "val") else known[variable]

    for equation in program.eqns:
        known.update(zip(equation.outvars, _step(equation, [read(v) for v in equation.invars]), strict=True))
    return [read(variable) for variable in program.outvars]


def _step(equation: Any, values: list[Value]) -> list[Value]:
    name, parameters = equation.primitive.name, equation.params
    inside = next((parameters[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in parameters), None)
    if inside is not None and name in CALLS:
        whole = NAMED.get(_name(inside.jaxpr))
        return run(inside.jaxpr, inside.consts, values) if whole is None else [whole(*values, inside=inside.jaxpr)]
    if name == "ne" and equation.invars[0] is equation.invars[1]:
        return [False]  # JAX tests for NaN
    if name not in OPERATIONS:
        raise InputError(
            f"JAX: the operation {name!r} has no translation to torch; write it with others, or write the problem in "
            "torch and give the hypergradient with bc.adapters.from_numpy"
        )
    if name not in ("select_n", "broadcast_in_dim"):
        values = [torch.tensor(value) if isinstance(value, bool) else value for value in values]
    return [OPERATIONS[name](*values, **parameters)]


def _name(program: Any) -> str:
    """The name of a function of JAX itself; empty for a user's function, whose file is in another folder."""
    function, _, place = str(getattr(getattr(program, "debug_info", None), "func_src_info", "")).partition(" at ")
    return function if "/jax/_src/" in place.replace("\\", "/") else ""


def tensor(value: Any) -> Tensor:
    """Convert a constant: real numbers to float64, which is exact; integers to int64; truth values stay as they are."""
    array = np.array(value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"JAX: a constant has dtype {array.dtype}; float16 to float64, integers and bool are known")
    return torch.from_numpy(
        array.astype({"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}[array.dtype.kind])
    )


def _dot_general(x: Tensor, y: Tensor, *, dimension_numbers: Any, **_: Any) -> Tensor:
    (x_sums, y_sums), (x_batch, y_batch) = dimension_numbers
    x_names: list[int | None] = [None] * x.dim()
    y_names: list[int | None] = [None] * y.dim()
    fresh = iter(range(52))  # einsum takes numbers as names
    for pairs in (zip(x_batch, y_batch, strict=True), zip(x_sums, y_sums, strict=True)):
        for i, j in pairs:
            x_names[i] = y_names[j] = next(fresh)
    left, right = ([next(fresh) if name is None else name for name in names] for names in (x_names, y_names))
    batch = [left[i] for i in x_batch]
    free = [left[i] for i in range(x.dim()) if i not in (*x_batch, *x_sums)]
    free += [right[j] for j in range(y.dim()) if j not in (*y_batch, *y_sums)]
    if x.dim() == 2 and y.dim() == 1 and not batch and tuple(x_sums) == (1,):
        return x @ y
    value: Tensor = torch.einsum(x, left, y, right, batch + free)
    return value


def _broadcast_in_dim(x: Value, *unused: Tensor, shape: Any, broadcast_dimensions: Any, **_: Any) -> Value:
    if isinstance(x, bool):
        return x
    here = [1] * len(shape)
    for i, axis in enumerate(broadcast_dimensions):
        here[axis] = x.shape[i]
    return x.reshape(here).expand(tuple(shape))


def _slice(x: Tensor, *, start_indices: Any, limit_indices: Any, strides: Any, **_: Any) -> Tensor:
    steps = strides or [1] * x.dim()
    return x[tuple(slice(*cut) for cut in zip(start_indices, limit_indices, steps, strict=True))]


def _convert(x: Tensor, *, new_dtype: Any, **_: Any) -> Tensor:
    kind = np.dtype(new_dtype).kind
    if kind == "f":
        return x if x.is_floating_point() else x.to(torch.float64)
    if x.is_floating_point():
        raise InputError(f"JAX: real numbers are converted to {np.dtype(new_dtype)}; that has no derivative")
    return x.to(torch.bool if kind == "b" else torch.int64)


def _select_n(which: Value, *cases: Tensor, **_: Any) -> Tensor:
    if isinstance(which, bool):
        return cases[which]
    if which.dtype != torch.bool or len(cases) != 2:
        raise InputError("JAX: select_n among more than two cases has no translation to torch; use jnp.where")
    return torch.where(which, cases[1], cases[0])


def _iota(*, dtype: Any, shape: Any, dimension: int, **_: Any) -> Tensor:
    numbers = tensor(np.arange(shape[dimension], dtype=dtype))
    return numbers.reshape([-1 if axis == dimension else 1 for axis in range(len(shape))]).expand(tuple(shape))


def _log_softmax(x: Tensor, *, inside: Any) -> Tensor:
    axes = next(equation.params["axes"] for equation in inside.eqns if equation.primitive.name == "reduce_max")
    if len(axes) != 1:
        raise InputError(f"JAX: log_softmax over {len(axes)} axes has no translation to torch; give one axis")
    return torch.log_softmax(x, int(axes[0]))


def _plain(function: Operation) -> Operation:
    """An operation whose JAX parameters (precision, placement) do not affect its value."""
    return lambda *values, **_: function(*values)


OPERATIONS: Mapping[str, Operation] = {
    **{name: _plain(getattr(torch, name)) for name in (
        "exp", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "atan2", "sqrt", "rsqrt", "abs",
        "sign", "square", "floor", "ceil", "erf", "erfc", "neg", "sub", "mul", "div", "pow", "eq", "ne", "lt", "le",
        "gt", "ge",
    )},
    **{name: _plain(torch.add) for name in ("add", "add_any")},
    **{name: _plain(lambda x: x) for name in ("copy", "copy_p", "stop_gradient", "optimization_barrier")},
    "and": _plain(torch.logical_and),
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": lambda *values, dimension, **_: torch.cat(values, dimension),
    "convert_element_type": _convert,
    "cumsum": lambda x, axis, reverse=False, **_: x.flip(axis).cumsum(axis).flip(axis) if reverse else x.cumsum(axis),
    "dot_general": _dot_general,
    "exp2": _plain(lambda x: torch.exp(x * math.log(2))),
    "integer_pow": lambda x, y, **_: x**y,
    "iota": _iota,
    "is_finite": _plain(lambda x: True),  # all numbers here are finite
    "logistic": _plain(torch.sigmoid),
    "max": _plain(torch.maximum),
    "min": _plain(torch.minimum),
    "not": _plain(torch.logical_not),
    "or": _plain(torch.logical_or),
    "reduce_max": lambda x, axes, **_: x.amax(tuple(axes)) if axes else x,
    "reduce_min": lambda x, axes, **_: x.amin(tuple(axes)) if axes else x,
    "reduce_sum": lambda x, axes, **_: x.sum(tuple(axes)) if axes else x,
    "reshape": lambda x, *unused, new_sizes, dimensions=None, **_: x.reshape(tuple(new_sizes)),
    "rev": lambda x, dimensions, **_: x.flip(tuple(dimensions)),
    "select_n": _select_n,
    "slice": _slice,
    "squeeze": lambda x, dimensions, **_: x.squeeze(tuple(dimensions)) if dimensions else x,
    "transpose": lambda x, permutation, **_: x.permute(tuple(permutation)),
}  # fmt: skip
CALLS = ("jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "custom_jvp_call", "custom_vjp_call",
         "custom_vjp_call_jaxpr", "custom_lin")  # fmt: skip
NAMED: Mapping[str, Operation] = {
    "log_softmax": _log_softmax,
    "logaddexp": lambda x, y, inside: torch.logaddexp(x, y),
}

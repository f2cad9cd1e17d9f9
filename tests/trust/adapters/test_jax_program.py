"""The interpreter of JAX's recorded programs, on stand-ins that say what JAX would; test_jaxopt.py has JAX itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.trust.adapters import jax_program

A = np.arange(12.0).reshape(2, 2, 3) - 4
B = np.arange(6.0).reshape(3, 2) - 1


class Variable:
    """A stand-in for `jax.core.Var`: only its identity matters."""


def equation(name: str, invars: list[Any], **parameters: Any) -> SimpleNamespace:
    return SimpleNamespace(primitive=SimpleNamespace(name=name), invars=invars, outvars=[Variable()], params=parameters)


def value(name: str, *arguments: Any, **parameters: Any) -> Tensor:
    """The value of one operation."""
    step = equation(name, [Variable() for _ in arguments], **parameters)
    program = SimpleNamespace(constvars=[], invars=step.invars, eqns=[step], outvars=step.outvars)
    (result,) = jax_program.run(program, [], [jax_program.tensor(x) for x in arguments])
    assert isinstance(result, Tensor)
    return result


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (value("dot_general", A[0], B, dimension_numbers=(((1,), (0,)), ((), ()))), A[0] @ B),
        (value("dot_general", A[0], B[:, 0], dimension_numbers=(((1,), (0,)), ((), ()))), A[0] @ B[:, 0]),
        (value("dot_general", B[:, 0], A[0], dimension_numbers=(((0,), (1,)), ((), ()))), A[0] @ B[:, 0]),
        (value("dot_general", A, A, dimension_numbers=(((2,), (2,)), ((0,), (0,)))), A @ A.transpose(0, 2, 1)),
        (value("broadcast_in_dim", B[0], shape=(2, 3), broadcast_dimensions=(0,)), np.stack([B[0]] * 3, 1)),
        (value("slice", A, start_indices=(0, 1, 0), limit_indices=(2, 2, 3), strides=(1, 1, 2)), A[:, 1:2, ::2]),
        (value("slice", B, start_indices=(1, 0), limit_indices=(3, 1), strides=None), B[1:3, :1]),
        (value("select_n", B > 0, B, 2 * B), np.where(B > 0, 2 * B, B)),
        (value("reduce_sum", A, axes=(0, 2), out_sharding=None), A.sum((0, 2))),
        (value("reduce_max", A, axes=(1,)), A.max(1)),
        (value("reduce_min", A, axes=(1,)), A.min(1)),
        (value("transpose", A, permutation=(2, 0, 1)), A.transpose(2, 0, 1)),
        (value("squeeze", A[:, :1], dimensions=(1,)), A[:, 0]),
        (value("reshape", A, new_sizes=(3, 4), dimensions=None), A.reshape(3, 4)),
        (value("concatenate", B, 2 * B, dimension=1), np.concatenate([B, 2 * B], 1)),
        (value("cumsum", B, axis=0, reverse=True), B[::-1].cumsum(0)[::-1]),
        (value("cumsum", B, axis=1, reverse=False), B.cumsum(1)),
        (value("rev", B, dimensions=(0,)), B[::-1]),
        (value("integer_pow", B, y=3), B**3),
        (value("logistic", B, accuracy=None), 1 / (1 + np.exp(-B))),
        (value("convert_element_type", np.array([1, 2]), new_dtype=np.float32, weak_type=False), np.array([1.0, 2.0])),
        (value("iota", dtype=np.int32, shape=(2, 3), dimension=1), np.array([[0, 1, 2], [0, 1, 2]])),
        (value("exp2", B, accuracy=None), 2**B),
        (value("stop_gradient", B), B),
    ],
)  # fmt: skip
def test_operations(result: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-14)


def test_every_plain_operation_has_the_value_that_numpy_gives() -> None:
    x, y = np.array([0.3, 0.7]), np.array([0.6, 0.2])
    for name in ("exp", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sqrt", "abs", "sign",
                 "square", "floor", "ceil"):  # fmt: skip
        np.testing.assert_allclose(value(name, x).numpy(), getattr(np, name)(x), rtol=1e-14, err_msg=name)
    names = {"add": "add", "add_any": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "pow": "power",
             "max": "maximum", "min": "minimum", "atan2": "arctan2", "eq": "equal", "ne": "not_equal", "lt": "less",
             "le": "less_equal", "gt": "greater", "ge": "greater_equal"}  # fmt: skip
    for name, theirs in names.items():
        np.testing.assert_allclose(value(name, x, y).numpy(), getattr(np, theirs)(x, y), rtol=1e-14, err_msg=name)
    for name in ("neg", "rsqrt"):
        np.testing.assert_allclose(value(name, x).numpy(), -x if name == "neg" else x**-0.5, rtol=1e-14)


def test_a_question_for_nan_has_the_answer_no() -> None:
    """As in `jnp.logaddexp`: select(x ≠ x, a, b) is a, and no comparison is left in the program."""
    x, a, b = Variable(), Variable(), Variable()
    is_nan = equation("ne", [x, x])
    wide = equation("broadcast_in_dim", is_nan.outvars, shape=(2,), broadcast_dimensions=())
    chosen = equation("select_n", [*wide.outvars, a, b])
    program = SimpleNamespace(constvars=[], invars=[x, a, b], eqns=[is_nan, wide, chosen], outvars=chosen.outvars)
    values: list[Any] = [torch.ones(()), torch.ones(2), torch.zeros(2)]
    assert jax_program.run(program, [], values)[0] is values[1]


def test_constants_and_nested_programs() -> None:
    x, c, z = Variable(), Variable(), Variable()
    times = equation("mul", [z, SimpleNamespace(val=np.float32(0.5))])
    inside = SimpleNamespace(constvars=[], invars=[z], eqns=[times], outvars=times.outvars)
    call = equation("jit", [x], jaxpr=SimpleNamespace(jaxpr=inside, consts=[]))
    plus = equation("add", [*call.outvars, c])
    program = SimpleNamespace(constvars=[c], invars=[x], eqns=[call, plus], outvars=plus.outvars)
    (result,) = jax_program.run(program, [np.float32(0.1)], [torch.tensor(3.0, dtype=torch.float64)])
    assert float(result) == 1.5 + float(np.float32(0.1))


@pytest.mark.parametrize("place", ["/lib/jax/_src/nn/functions.py:1", "/code/model.py:1"])
def test_a_function_is_known_by_name_only_if_it_is_of_jax(place: str) -> None:
    """A user's `log_softmax` may be anything."""
    z = Variable()
    twice = equation("add", [z, z])
    inside = SimpleNamespace(
        constvars=[], invars=[z], outvars=twice.outvars,
        debug_info=SimpleNamespace(func_src_info=f"log_softmax at {place}"),
        eqns=[SimpleNamespace(**vars(equation("reduce_max", [z], axes=(0,)))), twice],
    )  # fmt: skip
    call = equation("jit", [Variable()], jaxpr=SimpleNamespace(jaxpr=inside, consts=[]))
    program = SimpleNamespace(constvars=[], invars=call.invars, eqns=[call], outvars=call.outvars)
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    (result,) = jax_program.run(program, [], [x])
    assert torch.equal(result, torch.log_softmax(x, 0) if "jax" in place else 2 * x)


def test_what_has_no_translation_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="the operation 'sort' has no translation"):
        value("sort", B)
    with pytest.raises(InputError, match="the operation 'while' has no translation"):
        value("while", B, jaxpr=SimpleNamespace(jaxpr=None, consts=[]))
    with pytest.raises(InputError, match="converted to int32; that has no derivative"):
        value("convert_element_type", B, new_dtype=np.int32)
    with pytest.raises(InputError, match="select_n among more than two"):
        value("select_n", np.array(1), B, B, B)
    with pytest.raises(InputError, match="a constant has dtype complex128"):
        jax_program.tensor(np.ones(1) * 1j)

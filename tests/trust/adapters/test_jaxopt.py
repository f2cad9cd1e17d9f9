"""JAXopt and JAX: functions of JAX arrays as they are, against the packages themselves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import boundcheck as bc
from boundcheck.errors import InputError, UserCodeError
from boundcheck.trust.adapters import jax_program
from boundcheck.trust.adapters.jaxopt import translated

jax = pytest.importorskip("jax", reason="needs JAX: pip install 'boundcheck[audit]'")
jnp = jax.numpy
ADAPTER = bc.adapters.jaxopt
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(9, 3)).astype(np.float32), RNG.normal(size=9).astype(np.float32)
LAM = np.float32(-0.5)
SINGLE = 1e-5  # JAX computes in float32: 6e-8 times some hundred


@pytest.fixture(scope="module")
def jaxopt() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "JAXopt is no longer maintained"
        return pytest.importorskip("jaxopt", reason="needs JAXopt: pip install 'boundcheck[audit]'")


def ridge(w: Any, lam: Any, data: Any) -> Any:
    return 0.5 * jnp.mean((data[0] @ w - data[1]) ** 2) + 0.5 * jnp.exp(lam) * jnp.sum(w**2)


def outer_loss(w: Any, lam: Any) -> Any:
    return jnp.mean((X @ w - 1) ** 2)


def step(w: Any, lam: Any, data: Any) -> Any:
    return w - 0.3 * jax.grad(ridge)(w, lam, data)


def exact() -> float:
    """∇f by its formula in float64, with the numbers of the float32 arrays."""
    A, b = torch.from_numpy(X).double(), torch.from_numpy(Y).double()
    lam = torch.tensor(float(LAM), dtype=torch.float64, requires_grad=True)
    w = torch.linalg.solve(A.T @ A / 9 + lam.exp() * torch.eye(3, dtype=A.dtype), A.T @ b / 9)
    return float(torch.autograd.grad(((A @ w - 1) ** 2).mean(), lam)[0])


@pytest.mark.parametrize("form", ["fun", "optimality_fun", "fixed_point_fun"])
def test_a_solver_of_jaxopt(jaxopt: Any, form: str) -> None:
    lower: dict[str, Any] = {
        form: {"fun": ridge, "optimality_fun": jax.grad(ridge), "fixed_point_fun": step}[form]
    }  # fmt: skip
    problem = ADAPTER.problem(jnp.zeros(3), LAM, outer_loss, (X, Y), **lower)
    for maxiter in (2, 500):

        def f(lam: Any, maxiter: int = maxiter) -> Any:
            solver = jaxopt.GradientDescent(fun=ridge, maxiter=maxiter, tol=1e-6, stepsize=0.1)
            return outer_loss(solver.run(jnp.zeros(3), lam, (X, Y)).params, lam)

        g = bc.adapters.from_numpy(problem, jax.grad(f))
        error, enclosure = abs(float(g) - exact()), bc.enclose(problem, g)
        assert error > 1e-3 if maxiter == 2 else error < 1e-3
        assert enclosure.lower - 1e-12 <= error <= enclosure.upper + 1e-12
        assert enclosure.side is bc.Side.UPPER


def test_structures_of_jax_come_back() -> None:
    def fun(w: Any, lam: Any) -> Any:
        return (
            jnp.mean(jnp.logaddexp(0, -(X @ w["a"] + w["b"][0])))
            + 0.5 * jnp.exp(lam[0]) * jnp.vdot(w["a"], w["a"])
            + w["b"][0] ** 2
        )

    problem = ADAPTER.problem(
        {"a": jnp.zeros(3), "b": [jnp.zeros(())]}, [LAM], lambda w, lam: jnp.sum(w["a"] ** 2), fun=fun
    )  # fmt: skip
    g = bc.adapters.from_numpy(problem, lambda lam: [np.zeros_like(lam[0])])
    enclosure = bc.enclose(problem, g)
    assert enclosure.lower > 0
    assert enclosure.side is bc.Side.UPPER  # `logaddexp` is known by its name, and its kinks are none


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "matrix products": lambda w, lam: jnp.einsum("ij,kj->ik", X[:3], w.reshape(1, 3)).sum() * lam + w @ w,
    "shapes": lambda w, lam: jnp.sum(jnp.concatenate([w[None], w[None] ** 2])[:, ::-1].T[1:] * lam),
    "softmax": lambda w, lam: jnp.sum(jax.nn.log_softmax(X * w, axis=1)[:, 0]) * lam,
    "logsumexp": lambda w, lam: jax.nn.logsumexp(X @ w) * lam,
    "softplus": lambda w, lam: jnp.sum(jax.nn.softplus(w) * jax.nn.sigmoid(w)) * lam,
    "where": lambda w, lam: jnp.sum(jnp.where(w > 0.05, w**2, 3 * w)) * lam,
    "relu": lambda w, lam: jnp.sum(jax.nn.relu(w) + jnp.abs(w) + jnp.maximum(w, 0.07)) * lam,
    "powers": lambda w, lam: jnp.sum((w**2 + 1) ** 1.5 + jnp.sqrt(w**2 + 1) / (1 + jnp.exp2(w))) * lam,
    "cumsum": lambda w, lam: jnp.sum(jnp.cumsum(w) ** 2) * lam,
    "norm": lambda w, lam: jnp.linalg.norm(w + 1) * lam + jnp.var(w),
    "gelu": lambda w, lam: jnp.sum(jax.nn.gelu(w) + jax.scipy.special.erf(w)) * lam,
    "gradient": lambda w, lam: jnp.sum(jax.grad(lambda w: ridge(w, lam, (X, Y)))(w) ** 2),
    "vmap": lambda w, lam: jnp.sum(jax.vmap(lambda x, y: (x @ w - y) ** 2)(X, Y)) * lam,
    "jit": lambda w, lam: jax.jit(ridge)(w, lam, (X, Y)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_jax(name: str) -> None:
    function = FUNCTIONS[name]
    w, lam = np.array([0.1, -0.2, 0.4], dtype=np.float32), np.float32(0.7)
    ours = translated(jax, function, "f", w, lam, ())
    at = torch.from_numpy(w).double(), torch.tensor(float(lam), dtype=torch.float64)
    slope = torch.func.grad(ours)(*at)
    np.testing.assert_allclose(ours(*at).numpy(), function(w, lam), rtol=SINGLE, atol=SINGLE)
    np.testing.assert_allclose(slope.numpy(), jax.grad(function)(w, lam), rtol=SINGLE, atol=SINGLE)


def test_a_wrong_translation_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**jax_program.OPERATIONS, "exp": lambda x, **_: torch.exp(1.01 * x)}
    monkeypatch.setattr(jax_program, "OPERATIONS", wrong)
    with pytest.raises(UserCodeError, match=r"fun: its translation to torch is .* away"):
        ADAPTER.problem(jnp.zeros(3), LAM, outer_loss, (X, Y), fun=ridge)


def test_what_cannot_be_used_is_named() -> None:
    with pytest.raises(InputError, match="give one of fun=, optimality_fun=, fixed_point_fun="):
        ADAPTER.problem(jnp.zeros(3), LAM, outer_loss)
    with pytest.raises(InputError, match="the operation 'sort' has no translation"):
        ADAPTER.problem(jnp.zeros(3), LAM, outer_loss, fun=lambda w, lam: jnp.sum(jnp.sort(w) * lam))
    with pytest.raises(UserCodeError, match="fun raised KeyError"):
        ADAPTER.problem(jnp.zeros(3), LAM, outer_loss, fun=lambda w, lam: {}["a"])
    with pytest.raises(InputError, match="dtype int"):
        ADAPTER.problem(jnp.zeros(3, dtype=int), LAM, lambda w, lam: w.sum() * lam, fun=lambda w, lam: w.sum() * lam)

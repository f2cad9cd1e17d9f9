"""Error curves in jitted JAX for LR, KRR, BR and HR: the same data, λ and methods, the quickest way that was found.

All t at once. AID iterates on the rows w_1..w_T together, reads row t off after t steps, drops what is done. ITD is a
forward recursion of ∂w_t/∂λ, or where λ has more entries than T/2 a reverse sweep for all horizons, by hand for HR.

One thread. XLA sizes its pool by the cores that the process may use when its client is made, so this module makes the
client while one is allowed and then allows all again; XLA_FLAGS with --xla_cpu_multi_thread_eigen=false leaves two
threads at work, also under NPROC=1. LAPACK, for the step sizes, is scipy's OpenBLAS, which has a switch of its own. All
this on Linux, and only if nothing has started JAX before.
"""
# mypy: disable-error-code="no-any-return,no-untyped-call"

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg  # noqa: F401  # loads the LAPACK that JAX uses
import torch
from jax import Array, grad, lax, linearize, vjp, vmap

Curves = dict[str, np.ndarray]
Product = Callable[[Array], Array]
State = tuple[Array, ...]  # of a solver: v first, one row a t
EPS, TINY = np.finfo(np.float64).eps, np.finfo(np.float64).tiny
BLOCKS = 8  # how often finished rows are dropped; more blocks win little and compile longer


def _one_thread() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    jax.devices()
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # a thread that has ended by now
            os.sched_setaffinity(int(thread), allowed)
    for library in {word for word in Path("/proc/self/maps").read_text().split() if "openblas" in word}:
        for name in ("scipy_openblas_set_num_threads", "scipy_openblas_set_num_threads64_"):
            getattr(ctypes.CDLL(library), name, lambda _: None)(1)


jax.config.update("jax_enable_x64", True)
if hasattr(os, "sched_setaffinity"):
    _one_thread()


class Steps(NamedTuple):
    alpha: Any
    omega: Any = 1.0
    beta: Any = None  # None: gradient descent

    def move(self, new: Array, now: Array, before: Array) -> Array:
        """Heavy ball from Φ(w), w and w₋; Φ itself without momentum."""
        return new if self.beta is None else now + self.omega * (new - now) + self.beta * (now - before)


class Model(NamedTuple):
    """A problem in JAX; `inside(lam)` is what Φ needs of λ, computed once."""

    d: int
    n: int
    steps: Callable[[Array], Steps]
    inside: Callable[[Array], Array]
    phi: Callable[[Array, Array, Any], Array]  # of w, inside, α
    outer: Callable[[Array, Array], Array]  # of w, λ
    direct: Callable[[Array, Array, Any], Array] | None = None  # Φ of w, λ, α, for ∂₂Φᵀv; None: keep ∂₂Φ(w_t) for all t
    reverse: Callable[[Array, Steps, Array, Array], Array] | None = None  # ITD by hand, as cotangents of `inside`
    together: int = 1  # how many values of λ in one vmap


def _cuts(T: int) -> list[int]:
    return sorted({T * i // BLOCKS for i in range(BLOCKS + 1)})


def _data(file: str, **sizes: Any) -> tuple[Array, ...]:
    made = import_module(f"boundcheck.problems.{file}").generate(seed=0, dtype=torch.float64, device="cpu", **sizes)
    return tuple(jnp.asarray(x.numpy()) for x in (made.X, made.y, made.X_val, made.y_val))


def _heavy_ball(mu: Any, L: Array) -> Steps:
    alpha, s = 2 / (mu + L), jnp.sqrt(L) + jnp.sqrt(mu)
    return Steps(alpha, 4 / s**2 / alpha, ((jnp.sqrt(L) - jnp.sqrt(mu)) / s) ** 2)


def _lr(features: int = 100) -> Model:
    X, y, X_val, y_val = _data("logistic_regression", features=features)
    U, U_val = -y[:, None] * X, -y_val[:, None] * X_val
    quarter = U.T @ U / 4

    def steps(lam: Array) -> Steps:
        return Steps(2 / (lam.min() + jnp.linalg.eigvalsh(quarter + jnp.diag(lam))[-1]))

    def phi(w: Array, lam: Array, alpha: Any) -> Array:
        return w - alpha * (U.T @ jax.nn.sigmoid(U @ w) + lam * w)

    def outer(w: Array, lam: Array) -> Array:
        return jax.nn.softplus(U_val @ w).sum()

    return Model(features, features, steps, lambda lam: lam, phi, outer, phi, together=5)


def _krr(size: int = 50) -> Model:
    X, y, X_val, y_val = _data("kernel_ridge", size=size)
    Q, Q_val = (X[:, None] - X) ** 2, (X_val[:, None] - X) ** 2

    def inside(lam: Array) -> Array:
        return jnp.exp(-(Q @ lam[1:])) + lam[0] * jnp.eye(size)

    def steps(lam: Array) -> Steps:
        eigenvalues = jnp.linalg.eigvalsh(inside(lam))
        return _heavy_ball(eigenvalues[0], eigenvalues[-1])

    def phi(w: Array, H: Array, alpha: Any) -> Array:
        return w - alpha * (H @ w - y)

    def outer(w: Array, lam: Array) -> Array:
        return ((jnp.exp(-(Q_val @ lam[1:])) @ w - y_val) ** 2).sum() / 2

    return Model(size, 101, steps, inside, phi, outer)


def _br(features: int = 100, ridge: float = 1.0) -> Model:
    X, y, X_val, y_val = _data("biased_regularisation", features=features)
    known = _heavy_ball(ridge, jnp.linalg.eigvalsh(X @ X.T)[-1] + ridge)

    def phi(w: Array, lam: Array, alpha: Any) -> Array:
        return w - alpha * (X.T @ (X @ w - y) + ridge * (w - lam))

    def outer(w: Array, lam: Array) -> Array:
        return ((X_val @ w - y_val) ** 2).sum() / 2

    return Model(features, features, lambda lam: known, lambda lam: lam, phi, outer, phi, together=10)


def _hr(represented: int = 200, ridge: float = 10.0) -> Model:
    weights = partial(import_module("boundcheck.problems.hyper_representation").weights, represented=represented)
    X, y, X_val, y_val = _data("hyper_representation", weights=weights)

    def inside(lam: Array) -> Array:
        return X @ lam.reshape(100, represented)

    def steps(lam: Array) -> Steps:
        A = inside(lam)
        return _heavy_ball(ridge, jnp.linalg.eigvalsh(A @ A.T)[-1] + ridge)

    def phi(w: Array, A: Array, alpha: Any) -> Array:
        return w - alpha * (A.T @ (A @ w - y) + ridge * w)

    def direct(w: Array, lam: Array, alpha: Any) -> Array:  # without XH, ∂₂Φᵀv is two outer products
        H = lam.reshape(100, represented)
        return w - alpha * (H.T @ (X.T @ (X @ (H @ w) - y)) + ridge * w)

    def outer(w: Array, lam: Array) -> Array:
        return ((X_val @ (lam.reshape(100, represented) @ w) - y_val) ** 2).sum() / 2

    def reverse(A: Array, s: Steps, W: Array, G: Array) -> Array:
        """−α Σ_i (r_i f_iᵀ + (Af_i)w_iᵀ), f_i the cotangent of Φ(w_i), r = Aw − y; by hand, as AD takes Af twice."""
        R, result = W[:-1] @ A.T - y, []
        for a, b in pairwise(_cuts(len(G))):  # horizons a+1..b

            def step(z: tuple[Array, Array], i: Array, a: int = a, g: Array = G[a:b]) -> Any:
                u, before = z  # cotangents of (w_i, w_{i−1}), a row for each horizon
                u = jnp.where((jnp.arange(len(g)) == i - a)[:, None], g, u)  # a horizon begins with ∇₁E at its end
                f = s.omega * u
                Af = f @ A.T
                new = f - s.alpha * (Af @ A + ridge * f) + (1 - s.omega + s.beta) * u + before
                return (new, -s.beta * u), (f, Af)

            zeros = jnp.zeros_like(G[a:b])
            _, (f, Af) = lax.scan(step, (zeros, zeros), jnp.arange(b), reverse=True)
            result.append(-s.alpha * (R[:b].T @ f.transpose(1, 0, 2) + Af.transpose(1, 2, 0) @ W[:b]))
        return jnp.concatenate(result)

    return Model(represented, 100 * represented, steps, inside, phi, outer, direct, reverse)


def _reverse(model: Model, inside: Array, s: Steps, W: Array, G: Array) -> Array:
    """ITD as cotangents of `inside`, which is λ, a block of horizons at a time: those share ∂Φ(w_i)."""
    result = []
    for a, b in pairwise(_cuts(len(G))):  # horizons a+1..b

        def step(z: tuple[Array, ...], at: tuple[Array, Array], a: int = a, g: Array = G[a:b]) -> Any:
            (u, before, total), (i, w) = z, at  # cotangents of (w_{i+1}, w_i) and of λ, a row for each horizon
            u = jnp.where((jnp.arange(len(g)) == i - a)[:, None], g, u)  # a horizon begins with ∇₁E at its end
            by_w, by_lam = vmap(vjp(lambda w, x: model.phi(w, x, s.alpha), w, inside)[1])(s.omega * u)
            if s.beta is None:
                return (by_w, before, total + by_lam), None
            return (by_w + (1 - s.omega + s.beta) * u + before, -s.beta * u, total + by_lam), None

        zeros = jnp.zeros_like(G[a:b])
        start = (zeros, zeros, jnp.zeros((b - a, model.n)))
        result.append(lax.scan(step, start, (jnp.arange(b), W[:b]), reverse=True)[0][2])
    return jnp.concatenate(result)


MODELS = {"lr": _lr, "krr": _krr, "br": _br, "hr": _hr}


def _trajectory(model: Model, inside: Array, s: Steps, T: int) -> Array:
    """w_0..w_T, one a row."""

    def step(z: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        w, before = z
        new = s.move(model.phi(w, inside, s.alpha), w, before)
        return (new, w), new

    w0 = jnp.zeros(model.d)
    return jnp.concatenate([w0[None], lax.scan(step, (w0, w0), None, length=T)[1]])


def _fixed_point(d1phi_T: Product, G: Array, state: State) -> State:
    return (d1phi_T(state[0]) + G,)


def _conjugate_gradient(d1phi_T: Product, G: Array, state: State) -> State:
    v, r, p, rr, least = state  # least as in `plain`: no 0/0 after convergence
    Ap = p - d1phi_T(p)
    a = rr / ((p * Ap).sum(1, keepdims=True) + least)
    r = r - a * Ap
    new = (r * r).sum(1, keepdims=True)
    return v + a * p, r, r + new / (rr + least) * p, new, least


def _solve(method: str, phi: Product, W: Array, G: Array, ks: set[int | None]) -> dict[int | None, Array]:
    """v of all rows after each k of `ks`; under None, of row t after t steps."""
    solver = _fixed_point if method == "aid-fp" else _conjugate_gradient
    zeros, rr = jnp.zeros_like(G), (G * G).sum(1, keepdims=True)
    state: State = (zeros,) if method == "aid-fp" else (zeros, G, G, rr, EPS**4 * rr + TINY)
    result: dict[int | None, Array] = {}
    first, read, fixed = 0, [], {k for k in ks if k is not None}
    for a, b in pairwise(sorted({0, *fixed, *(_cuts(len(G)) if None in ks else ())})):
        keep = a if a >= max(fixed, default=0) else 0  # a fixed k needs all rows until then
        state, first = tuple(x[keep - first :] for x in state), keep
        _, pull = vjp(vmap(phi), W[keep:])

        def step(state: State, i: Array, pull: Any = pull, g: Array = G[keep:]) -> tuple[State, Array]:
            state = solver(lambda v: pull(v)[0], g, state)
            return state, state[0][i]

        state, rows = lax.scan(step, state, jnp.arange(a, b) - keep)
        read.append(rows)
        if b in fixed:
            result[b] = state[0]
    if None in ks:
        result[None] = jnp.concatenate(read)[: len(G)]
    return result


def _curves(model: Model, T: int, methods: Sequence[str], lam: Array, exact: Array) -> dict[str, Array]:
    s, inside = model.steps(lam), model.inside(lam)
    W = _trajectory(model, inside, s, T)
    G = vmap(grad(model.outer), (0, None))(W[1:], lam)
    result: dict[str, Array] = {}  # for each t: v of AID; of ITD the derivative through w_t, or a cotangent of `inside`
    backwards = model.reverse is not None or (model.direct is not None and 2 * model.n > T)
    tangents = None if backwards else vmap(linearize(model.inside, lam)[1])(jnp.eye(model.n))
    P = None  # ∂₂Φ(w_t)ᵀ for all t, one matrix product
    if model.direct is None:
        P = vmap(lambda w: vmap(linearize(lambda x: model.phi(w, x, s.alpha), inside)[1])(tangents))(W)
    for solver in ("aid-fp", "aid-cg"):
        asked = {m: int(m.split(":")[1]) if ":" in m else None for m in methods if m.startswith(solver)}
        if asked:
            v = _solve(solver, lambda w: model.phi(w, inside, s.alpha), W[1:], G, set(asked.values()))
            result |= {method: v[k] for method, k in asked.items()}

    def forward(z: tuple[Array, Array], at: tuple[Array, Array, Any]) -> tuple[tuple[Array, Array], Array]:
        """S_t = ∂₁Ψ S_{t−1} + ∂₂Ψ, transposed: one entry of λ a row."""
        (S, before), (w, g, P) = z, at
        if P is None:
            new = vmap(linearize(lambda w, x: model.phi(w, x, s.alpha), w, inside)[1])(S, tangents)
        else:
            new = vmap(linearize(lambda w: model.phi(w, inside, s.alpha), w)[1])(S) + P
        new = s.move(new, S, before)
        return (new, S), new @ g

    if "itd" in methods and model.reverse:
        result["itd"] = model.reverse(inside, s, W, G)
    elif "itd" in methods and backwards:
        result["itd"] = _reverse(model, inside, s, W, G)
    elif "itd" in methods:
        S = jnp.zeros((model.n, model.d))
        result["itd"] = lax.scan(forward, (S, S), (W[:-1], G, None if P is None else P[:-1]))[1]

    def norms(at: tuple[Array, dict[str, Array], Any]) -> dict[str, Array]:
        w, part, P = at
        rest = grad(model.outer, 1)(w, lam) - exact
        for method in methods:
            if method == "itd":
                part[method] = vjp(model.inside, lam)[1](part[method])[0] if model.reverse else part[method]
            elif (direct := model.direct) is not None:
                part[method] = vjp(lambda lam, phi=direct: phi(w, lam, s.alpha), lam)[1](part[method])[0]
            else:
                part[method] = P @ part[method]
        return {method: jnp.sqrt(((part[method] + rest) ** 2).sum()) for method in methods}

    each = (W[1:], result, None if P is None else P[1:])
    return lax.map(norms, each) if model.reverse else vmap(norms)(each)  # in turn, 20,000 entries stay in the cache


def compiled(name: str, T: int, methods: Sequence[str], count: int = 1, **sizes: int) -> Callable[[Any, Any], Curves]:
    """`error_curves` as a function of (lam, exact), compiled and run once for `count` values of λ."""
    model = MODELS[name](**sizes)

    @jax.jit
    def run(lam: Array, exact: Array) -> dict[str, Array]:
        return lax.map(lambda at: _curves(model, T, methods, *at), (lam, exact), batch_size=model.together)

    def curves(lam: Any, exact: Any) -> Curves:
        result = jax.device_get(run(np.atleast_2d(lam), np.atleast_2d(exact)))
        return {method: result[method] if np.ndim(lam) == 2 else result[method][0] for method in methods}

    curves(np.ones((count, model.n)), np.ones((count, model.n)))
    return curves


def error_curves(name: str, lam: Any, exact: Any, T: int, methods: Sequence[str]) -> Curves:
    """‖hypergradient − exact‖ for t = 1..T at one λ (n,), or at several (L, n): then a row for each. Compiles anew."""
    return compiled(name, T, methods, np.atleast_2d(lam).shape[0])(lam, exact)

"""Error curves in jitted JAX for LR, KRR, BR and HR: the same data, λ and methods, the quickest way that was found.

All t at once. AID iterates on the rows w_1..w_T together, reads row t off after t steps and drops the rows that are done.
ITD is a forward recursion of ∂w_t/∂λ for LR, KRR and BR; for HR, with 20,000 entries in λ, a reverse sweep for all horizons.

One thread. XLA sizes its pool by the cores that the process may use when its client is made, so this module makes the
client while only one is allowed and then allows all again (Linux; elsewhere XLA uses what it likes). The flag
--xla_cpu_multi_thread_eigen=false, with or without NPROC=1, leaves two threads at work. LAPACK, for the step sizes, is
scipy's OpenBLAS, whose idle threads cost more than its work here; it reads OPENBLAS_NUM_THREADS when it is loaded. So
import this module before numpy, scipy and boundcheck, or set OPENBLAS_NUM_THREADS=1 in the shell.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array, lax, vmap

Curves = dict[str, np.ndarray]
BLOCKS = 8  # how often finished rows are dropped; more blocks win little and compile longer


def _one_thread() -> None:
    if hasattr(os, "sched_setaffinity"):  # Linux
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(allowed)})
        jax.devices()
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), allowed)


jax.config.update("jax_enable_x64", True)
_one_thread()


class Steps(NamedTuple):
    alpha: Any
    omega: Any = 1.0
    beta: Any = 0.0


class Model(NamedTuple):
    """A problem in JAX. `inside(lam)` is what Φ needs of λ, computed once; `direct` is Φ without it, for ∂₂Φᵀv."""

    d: int
    n: int
    momentum: bool
    steps: Callable[[Array], Steps]
    inside: Callable[[Array], Array]
    phi: Callable[[Array, Array, Any], Array]  # of w, inside, α
    outer: Callable[[Array, Array], Array]  # of w, λ
    direct: Callable[[Array, Array, Any], Array]  # of w, λ, α
    together: int = 1  # how many values of λ in one vmap
    dense: bool = False  # is ∂₂Φ(w_t) kept for all t? it pays where a product with ∂₂Φᵀ is dear
    reverse: Callable[[Array, Steps, Array, Array], Array] | None = None  # ITD: a cotangent of `inside` for each t


def _data(file: str) -> tuple[Array, Array, Array, Array]:
    made = import_module(f"boundcheck.problems.{file}").generate(seed=0, dtype=torch.float64, device="cpu")
    X, y, X_val, y_val = (jnp.asarray(x.numpy()) for x in (made.X, made.y, made.X_val, made.y_val))
    return X, y, X_val, y_val


def _heavy_ball(mu: Any, L: Array) -> Steps:
    alpha, s = 2 / (mu + L), jnp.sqrt(L) + jnp.sqrt(mu)
    return Steps(alpha, 4 / s**2 / alpha, ((jnp.sqrt(L) - jnp.sqrt(mu)) / s) ** 2)


def _lr() -> Model:
    X, y, X_val, y_val = _data("logistic_regression")
    U, U_val = -y[:, None] * X, -y_val[:, None] * X_val
    quarter = U.T @ U / 4

    def steps(lam: Array) -> Steps:
        return Steps(2 / (lam.min() + jnp.linalg.eigvalsh(quarter + jnp.diag(lam))[-1]))

    def phi(w: Array, lam: Array, alpha: Any) -> Array:
        return w - alpha * (U.T @ jax.nn.sigmoid(U @ w) + lam * w)

    def outer(w: Array, lam: Array) -> Array:
        return jax.nn.softplus(U_val @ w).sum()

    return Model(100, 100, False, steps, lambda lam: lam, phi, outer, phi, together=5)


def _krr() -> Model:
    X, y, X_val, y_val = _data("kernel_ridge")
    Q, Q_val = (X[:, None] - X) ** 2, (X_val[:, None] - X) ** 2

    def inside(lam: Array) -> Array:
        return jnp.exp(-(Q @ lam[1:])) + lam[0] * jnp.eye(50)

    def steps(lam: Array) -> Steps:
        eigenvalues = jnp.linalg.eigvalsh(inside(lam))
        return _heavy_ball(eigenvalues[0], eigenvalues[-1])

    def phi(w: Array, H: Array, alpha: Any) -> Array:
        return w - alpha * (H @ w - y)

    def outer(w: Array, lam: Array) -> Array:
        return ((y_val - jnp.exp(-(Q_val @ lam[1:])) @ w) ** 2).sum() / 2

    def direct(w: Array, lam: Array, alpha: Any) -> Array:
        return phi(w, inside(lam), alpha)

    return Model(50, 101, True, steps, inside, phi, outer, direct, dense=True)


def _br(ridge: float = 1.0) -> Model:
    X, y, X_val, y_val = _data("biased_regularisation")
    known = _heavy_ball(ridge, jnp.linalg.eigvalsh(X @ X.T)[-1] + ridge)
    Xy = X.T @ y

    def phi(w: Array, lam: Array, alpha: Any) -> Array:
        return w - alpha * (X.T @ (X @ w) + ridge * w - (Xy + ridge * lam))

    def outer(w: Array, lam: Array) -> Array:
        return ((X_val @ w - y_val) ** 2).sum() / 2

    return Model(100, 100, True, lambda lam: known, lambda lam: lam, phi, outer, phi, together=10)


def _hr(ridge: float = 10.0) -> Model:
    X, y, X_val, y_val = _data("hyper_representation")

    def inside(lam: Array) -> Array:
        return X @ lam.reshape(100, 200)

    def steps(lam: Array) -> Steps:
        A = inside(lam)
        return _heavy_ball(ridge, jnp.linalg.eigvalsh(A @ A.T)[-1] + ridge)

    def phi(w: Array, A: Array, alpha: Any) -> Array:
        return w - alpha * (A.T @ (A @ w - y) + ridge * w)

    def direct(w: Array, lam: Array, alpha: Any) -> Array:  # with XH never formed, ∂₂Φᵀv is two outer products
        H = lam.reshape(100, 200)
        return w - alpha * (H.T @ (X.T @ (X @ (H @ w) - y)) + ridge * w)

    def outer(w: Array, lam: Array) -> Array:
        return ((X_val @ (lam.reshape(100, 200) @ w) - y_val) ** 2).sum() / 2

    def reverse(A: Array, s: Steps, W: Array, G: Array) -> Array:
        """−α Σ_i (r_i f_iᵀ + (Af_i)w_iᵀ), f_i the cotangent of Φ(w_i) and r = Aw − y; by hand, as AD computes Af twice."""
        R, found = W[:-1] @ A.T - y, []

        def step(z: tuple[Array, Array], _: Any) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            u, before = z  # cotangents of (w_i, w_{i−1}), a row for each horizon
            f = s.omega * u
            Af = f @ A.T
            new = f - s.alpha * (Af @ A + ridge * f) + (1 - s.omega + s.beta) * u + before
            return (new, -s.beta * u), (f, Af)

        def contract(steps: slice, f: Array, Af: Array) -> Array:
            return R[steps].T @ f.transpose(1, 0, 2) + Af.transpose(1, 2, 0) @ W[steps]

        for a, b in pairwise(len(G) * i // BLOCKS for i in range(BLOCKS + 1)):  # horizons a+1..b

            def enter(z: Any, i: Array, g: Array = G[a:b]) -> Any:  # horizon i+1 begins with ∇₁E(w_{i+1})
                return step((z[0].at[i].set(g[i]), z[1]), None)

            zeros = jnp.zeros_like(G[a:b])
            z, kept = lax.scan(enter, (zeros, zeros), jnp.arange(b - a), reverse=True)
            total = contract(slice(a, b), *kept)
            if a:
                total += contract(slice(a), *lax.scan(step, z, None, length=a, reverse=True)[1])
            found.append(-s.alpha * total)
        return jnp.concatenate(found)

    return Model(200, 20000, True, steps, inside, phi, outer, direct, reverse=reverse)


MODELS = {"lr": _lr, "krr": _krr, "br": _br, "hr": _hr}


def _trajectory(model: Model, inside: Array, s: Steps, T: int) -> Array:
    """w_0..w_T, one a row."""

    def step(z: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        w, before = z
        new = model.phi(w, inside, s.alpha)
        if model.momentum:
            new = w + s.omega * (new - w) + s.beta * (w - before)
        return (new, w), new

    w0 = jnp.zeros(model.d)
    return jnp.concatenate([w0[None], lax.scan(step, (w0, w0), None, length=T)[1]])


State = tuple[Array, ...]  # v first, one row a t
Step = Callable[[State], State]
Found = dict[int | None, Array]


def _solve(state: State, stepper: Callable[[int], Step], T: int, ks: set[int | None]) -> Found:
    """v of all rows after each k of `ks`; for None, of row t after t steps. `stepper(first)` steps the rows from `first`."""
    found: Found = {}
    fixed = {k for k in ks if k is not None}
    first, read = 0, []
    for a, b in pairwise(sorted({0, *fixed, *(T * i // BLOCKS for i in range(BLOCKS + 1) if None in ks)})):
        keep = a if a >= max(fixed, default=0) else 0  # a fixed k needs all rows until then
        state, first = tuple(x[keep - first :] for x in state), keep
        step = stepper(keep)

        def body(state: State, i: Array, step: Step = step) -> tuple[State, Array]:
            state = step(state)
            return state, state[0][i]

        state, rows = lax.scan(body, state, jnp.arange(a, b) - keep)
        read.append(rows)
        if b in fixed:
            found[b] = state[0]
    if None in ks:
        found[None] = jnp.concatenate(read)[:T]
    return found


def _fixed_point(phi: Callable[[Array], Array], W: Array, G: Array, ks: set[int | None]) -> Found:
    def stepper(first: int) -> Step:
        _, d1phi_T = jax.vjp(vmap(phi), W[first:])
        return lambda state: (d1phi_T(state[0])[0] + G[first:],)

    return _solve((jnp.zeros_like(G),), stepper, len(G), ks)


def _conjugate_gradient(phi: Callable[[Array], Array], W: Array, G: Array, ks: set[int | None]) -> Found:
    tiny = np.finfo(G.dtype).tiny  # 0/0 after convergence becomes 0; no other quotient changes

    def stepper(first: int) -> Step:
        _, d1phi_T = jax.vjp(vmap(phi), W[first:])

        def step(state: State) -> State:
            v, r, p, rr = state
            Ap = p - d1phi_T(p)[0]
            a = rr / ((p * Ap).sum(1, keepdims=True) + tiny)
            r = r - a * Ap
            new = (r * r).sum(1, keepdims=True)
            return v + a * p, r, r + new / (rr + tiny) * p, new

        return step

    return _solve((jnp.zeros_like(G), G, G, (G * G).sum(1, keepdims=True)), stepper, len(G), ks)


def _partials(model: Model, lam: Array, inside: Array, s: Steps, W: Array) -> Array:
    """∂₂Φ(w)ᵀ for the rows w of W, as one matrix product."""
    tangents = _tangents(model, lam)
    return vmap(lambda w: vmap(jax.linearize(lambda x: model.phi(w, x, s.alpha), inside)[1])(tangents))(W)


def _tangents(model: Model, lam: Array) -> Array:
    """The derivative of `inside`, one entry of λ a row."""
    return vmap(jax.linearize(model.inside, lam)[1])(jnp.eye(model.n))


def _forward(model: Model, lam: Array, inside: Array, s: Steps, W: Array, G: Array, P: Array | None) -> Array:
    """(∂w_t/∂λ)ᵀ∇₁E(w_t), one t a row: S_t = ∂₁Ψ S_{t−1} + ∂₂Ψ, transposed, so one entry of λ a row of S."""
    tangents = _tangents(model, lam)

    def step(z: tuple[Array, Array], at: tuple[Array, Array, Any]) -> tuple[tuple[Array, Array], Array]:
        (S, before), (w, g, P) = z, at
        if P is None:
            new = vmap(jax.linearize(lambda w, x: model.phi(w, x, s.alpha), w, inside)[1])(S, tangents)
        else:
            new = vmap(jax.linearize(lambda w: model.phi(w, inside, s.alpha), w)[1])(S) + P
        if model.momentum:
            new = S + s.omega * (new - S) + s.beta * (S - before)
        return (new, S), new @ g

    S = jnp.zeros((model.n, model.d))
    return lax.scan(step, (S, S), (W[:-1], G, None if P is None else P[:-1]))[1]


def _curves(model: Model, T: int, methods: Sequence[str], lam: Array, exact: Array) -> Any:
    s, inside = model.steps(lam), model.inside(lam)
    W = _trajectory(model, inside, s, T)
    G = vmap(jax.grad(model.outer), (0, None))(W[1:], lam)
    P = _partials(model, lam, inside, s, W) if model.dense else None
    found: dict[
        str, Array
    ] = {}  # for each t: v of AID; of ITD the derivative through w_t, or its cotangent of `inside`
    for solver, solve in (("aid-fp", _fixed_point), ("aid-cg", _conjugate_gradient)):
        asked = {m: int(m.split(":")[1]) if ":" in m else None for m in methods if m.startswith(solver)}
        if asked:
            v = solve(lambda w: model.phi(w, inside, s.alpha), W[1:], G, set(asked.values()))
            found |= {method: v[k] for method, k in asked.items()}
    if "itd" in methods:
        reverse = model.reverse
        found["itd"] = reverse(inside, s, W, G) if reverse else _forward(model, lam, inside, s, W, G, P)

    def norms(at: tuple[Array, dict[str, Array], Any]) -> dict[str, Array]:
        w, part, P = at
        rest = jax.grad(model.outer, 1)(w, lam) - exact
        _, d2phi_T = jax.vjp(lambda lam: model.direct(w, lam, s.alpha), lam)
        for method in methods:
            if method != "itd":
                part[method] = d2phi_T(part[method])[0] if P is None else P @ part[method]
            elif model.reverse:
                part[method] = jax.vjp(model.inside, lam)[1](part[method])[0]
        return {method: jnp.sqrt(((part[method] + rest) ** 2).sum()) for method in methods}

    each = (W[1:], found, None if P is None else P[1:])
    # a gradient of 20,000 entries stays in the cache when one t follows the other
    return lax.map(norms, each) if model.reverse else vmap(norms)(each)


@lru_cache
def _compiled(name: str, T: int, methods: tuple[str, ...], count: int) -> Callable[[Any, Any], Curves]:
    model = MODELS[name]()

    @jax.jit
    def run(lam: Array, exact: Array) -> dict[str, Array]:
        return lax.map(lambda at: _curves(model, T, methods, *at), (lam, exact), batch_size=min(model.together, count))

    def curves(lam: Any, exact: Any) -> Curves:
        lam, exact = np.asarray(lam, dtype=np.float64), np.asarray(exact, dtype=np.float64)
        found = jax.device_get(run(np.atleast_2d(lam), np.atleast_2d(exact)))
        return {method: found[method] if lam.ndim == 2 else found[method][0] for method in methods}

    ones = np.ones((count, model.n))
    curves(ones, ones)
    return curves


def compiled(name: str, T: int, methods: Sequence[str], count: int = 1) -> Callable[[Any, Any], Curves]:
    """`error_curves` as a function of (lam, exact) for `count` values of λ, compiled and run once."""
    return _compiled(name, T, tuple(methods), count)


def error_curves(name: str, lam: Any, exact: Any, T: int, methods: Sequence[str]) -> Curves:
    """‖hypergradient − exact‖ for t = 1..T at one λ (n,), or at several (L, n): then a row for each."""
    return compiled(name, T, methods, np.atleast_2d(lam).shape[0])(lam, exact)

"""A bilevel problem at a fixed λ, and the algorithms written out in numpy: iterates, derivatives, linear solvers.

Arrays have axes (t, …) for the lower level and (t, k, …) for the linear system; index i is what i steps give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from dense_solvers import SOLVERS, Array, apply, exact, fixed_point

from boundcheck import Constant
from boundcheck.theory.step_sizes import Momentum

Map = Callable[[Array], Array]


def norm(x: Array) -> Array:
    """The Euclidean norm of each vector of a stack."""
    return np.linalg.norm(x, axis=-1)


def spectral(M: Array) -> Array:
    """The spectral norm of each matrix of a stack."""
    return np.linalg.norm(M, 2, axis=(-2, -1))


@dataclass(frozen=True, eq=False)
class Instance:
    """Φ and E at λ with their derivatives. `sups` gives q, ν, η, … on a ball; `fixed` what no ball changes."""

    name: str
    lam: Array
    phi: Callable[[Array, Array], Array]  # of w and λ
    outer: Callable[[Array, Array], Array]
    d1phi: Map
    d2phi: Map
    grad_w: Map
    grad_lam: Map
    w_0: Array
    sups: Callable[[Array, float], dict[str, float]]  # of the centre and radius of a ball that contains w*
    fixed: dict[str, float] = field(default_factory=dict)

    @cached_property
    def w_star(self) -> Array:
        w = np.zeros_like(self.w_0)
        for _ in range(300):
            w = self.phi(w, self.lam)
        for _ in range(5):  # Newton, to the last digit
            w = w - np.linalg.solve(np.eye(w.size) - self.d1phi(w), w - self.phi(w, self.lam))
        return w

    @cached_property
    def w_prime(self) -> Array:
        return np.linalg.solve(np.eye(self.w_star.size) - self.d1phi(self.w_star), self.d2phi(self.w_star))

    @cached_property
    def hypergradient(self) -> Array:
        return self.grad_lam(self.w_star) + self.w_prime.T @ self.grad_w(self.w_star)

    def local(self, peak: float = 1.0) -> dict[str, float]:
        """The constants on B(w*, r_0·peak)."""
        r_0 = float(norm(self.w_0 - self.w_star))
        return self._on_ball(self.w_star, r_0 * peak) | {"r_0": r_0}

    def shrinking(self, ratio: float = 0.6, balls: int = 6) -> dict[str, Constant]:
        """The constants on B(w*, r_0), with their values on smaller balls."""
        outer = self.local()
        made = {name: Constant(name, value) for name, value in outer.items()}
        radii = [outer["r_0"] * ratio**j for j in range(1, balls + 1)]
        if not radii[-1] > 0:
            return made
        inside = [self.sups(self.w_star, radius) for radius in radii]
        for name in ("q", "nu_1", "nu_2", "eta_1", "eta_2", "mu_inv", "kappa"):
            if name in outer:
                pick = np.maximum if name == "mu_inv" else np.minimum
                values = pick.accumulate([outer[name], *(some[name] for some in inside)])[1:]
                made[name] = Constant(name, outer[name], on_smaller=tuple(zip(radii, values.tolist(), strict=True)))
        ends, slopes = np.array([*radii, 0.0]), np.array([some["q"] for some in inside])
        means = np.cumsum((slopes * -np.diff(ends))[::-1])[::-1] / ends[:-1]  # over the way to w*
        means = np.minimum.accumulate([outer["q"], *means])[1:]
        made["q"] = replace(made["q"], towards=tuple(zip(radii, means.tolist(), strict=True)))
        return made

    def paper(self) -> dict[str, float]:
        """The constants on ‖w‖ ≤ 2D, for a run from w_0 = 0; D = ‖w*‖."""
        D = float(norm(self.w_star))
        return self._on_ball(np.zeros_like(self.w_star), 2 * D) | {"r_0": D, "D": D}

    def _on_ball(self, centre: Array, radius: float) -> dict[str, float]:
        found = self.sups(centre, radius)
        # ∇₁E and ∂₂Φ are Lipschitz on the ball, so within η₁R and ν₂R of their values at the centre
        L_E = float(norm(self.grad_w(centre))) + found["eta_1"] * radius
        L_Phi = float(spectral(self.d2phi(centre))) + found["nu_2"] * radius
        at_w_star = {
            "q_star": float(spectral(self.d1phi(self.w_star))),
            "L_Phi_star": float(spectral(self.d2phi(self.w_star))),
            "W": float(spectral(self.w_prime)),
            "g_star": float(norm(self.grad_w(self.w_star))),
        }
        return {**self.fixed, **found, **at_w_star, "L_E": L_E, "L_Phi": L_Phi}


@dataclass(frozen=True)
class Path:
    """Iterates w_t and their derivatives w_t' with respect to λ."""

    w: Array
    u: Array


def iterate(instance: Instance, w_0: Array, T: int) -> Path:
    """w_{t+1} = Φ(w_t), w_{t+1}' = ∂₁Φ(w_t)w_t' + ∂₂Φ(w_t), from w_0' = 0."""
    w, u = [w_0], [np.zeros_like(instance.w_prime)]
    for _ in range(T):
        u.append(instance.d1phi(w[-1]) @ u[-1] + instance.d2phi(w[-1]))
        w.append(instance.phi(w[-1], instance.lam))
    return Path(np.array(w), np.array(u))


def momentum(instance: Instance, method: Momentum, T: int) -> Path:
    """Heavy ball or Nesterov on the quadratic from w_{−1} = w_0, with its derivative for frozen α and β.

    ∇₁ℓ and its derivatives are those of (w−Φ)/α, Φ being gradient descent with its own frozen α.
    """
    alpha, beta, heavy = method.alpha / instance.fixed["alpha"], method.beta, method.name == "heavy-ball"
    w, u = [instance.w_0] * 2, [np.zeros_like(instance.w_prime)] * 2
    for _ in range(T):
        y, y_prime = w[-1] + beta * (w[-1] - w[-2]), u[-1] + beta * (u[-1] - u[-2])
        x, x_prime = (w[-1], u[-1]) if heavy else (y, y_prime)  # where the gradient is taken
        w.append(y - alpha * (x - instance.phi(x, instance.lam)))
        u.append(y_prime - alpha * (x_prime - instance.d1phi(x) @ x_prime - instance.d2phi(x)))
    return Path(np.array(w[1:]), np.array(u[1:]))


def polynomials(method: Momentum, H: Array, E: Array, T: int) -> tuple[Array, Array]:
    """P_t(H), with w_t−w* = P_t(H)(w_0−w*), and its derivative along E; for stacks of symmetric matrices, at μ = 1."""
    root = np.sqrt(method.kappa)
    heavy, s = method.name == "heavy-ball", (root - 1) / (root + 1)
    alpha, beta = (4 / (root + 1) ** 2, s**2) if heavy else (1 / method.kappa, s)
    P, dP = [np.broadcast_to(np.eye(H.shape[-1]), H.shape)] * 2, [np.zeros_like(H)] * 2
    for _ in range(T):
        y, dy = P[-1] + beta * (P[-1] - P[-2]), dP[-1] + beta * (dP[-1] - dP[-2])
        x, dx = (P[-1], dP[-1]) if heavy else (y, dy)
        P.append(y - alpha * H @ x)
        dP.append(dy - alpha * (E @ x + H @ dx))
    return np.array(P[1:]), np.array(dP[1:])


def truncated(instance: Instance, w: Array) -> Array:
    """u[t, K]: the derivative of w_t through its last K steps; NaN where K > t."""
    T = len(w)
    Y, Z = instance.d1phi(w), instance.d2phi(w)
    u = np.full((T, T, *instance.w_prime.shape), np.nan)
    for t in range(T):
        u[t, 0], back = 0.0, np.eye(w.shape[1])
        for K in range(1, t + 1):  # one step further back
            u[t, K] = u[t, K - 1] + back @ Z[t - K]
            back = back @ Y[t - K]
    return u


def implied(instance: Instance, w: Array, K: int) -> Array:
    """u_{t,k+1} = ∂₁Φ(w_t)u_{t,k} + ∂₂Φ(w_t) from 0, the derivative that AID-FP implies."""
    Y, Z = instance.d1phi(w), instance.d2phi(w)
    u = [np.zeros_like(Z)]
    for _ in range(K):
        u.append(Y @ u[-1] + Z)
    return np.stack(u, axis=1)


def gradient_error(instance: Instance, w: Array, u: Array, off: Array | float = 0.0) -> Array:
    """‖∇₂E(w_t) + uᵀ∇₁E(w_t) − ∇f‖ for a stack of derivatives u over t, or over (t, k); from ∇f + `off` if given."""
    b, c = instance.grad_w(w), instance.grad_lam(w)
    b, c = (b, c) if u.ndim == 3 else (b[:, None], c[:, None])
    return norm(c + np.einsum("...an,...a->...n", u, b) - instance.hypergradient - off)


def aid_vectors(instance: Instance, w: Array, K: int, solver: str) -> Array:
    """The AID hypergradients over (t, k)."""
    A = np.eye(w.shape[1]) - np.swapaxes(instance.d1phi(w), -1, -2)
    v_k = SOLVERS[solver](A, instance.grad_w(w), K)
    return instance.grad_lam(w)[:, None] + apply(np.swapaxes(instance.d2phi(w), -1, -2)[:, None], v_k)


def observe(instance: Instance, w: Array, K: int, solver: str) -> dict[str, Array]:
    """All quantities of the AID proofs, over (t, k); `error` is that of AID with this solver."""
    w_star, w_prime, K_axis = instance.w_star, instance.w_prime, (slice(None), None)
    Y, Z, b, c = instance.d1phi(w), instance.d2phi(w), instance.grad_w(w), instance.grad_lam(w)
    Y_star, Z_star, b_star = instance.d1phi(w_star), instance.d2phi(w_star), instance.grad_w(w_star)
    eye = np.eye(w.shape[1])
    A, A_star = eye - np.swapaxes(Y, -1, -2), eye - Y_star.T
    v_t, v = exact(A, b, 0)[:, 0], np.linalg.solve(A_star, b_star)
    v_k = SOLVERS[solver](A, b, K)
    Z_T = np.swapaxes(Z, -1, -2)[:, None]
    over_t = {
        **observe_lower(instance, w),
        "Z_t": spectral(Z),
        "W_t": spectral(np.linalg.solve(eye - Y, Z)),
        "newton_t": norm(np.linalg.solve(eye - Y, (w - instance.phi(w, instance.lam))[..., None])[..., 0]),
        "v_t": norm(v_t),
        "v_star": norm(v),
        "dv_t": norm(v_t - v),
        "dZT_v": norm(np.einsum("tan,a->tn", Z - Z_star, v)),
        "dY": spectral(Y - Y_star),
        "dZ": spectral(Z - Z_star),
        "A_t_inv": spectral(np.linalg.inv(A)),
        "A_inv": spectral(np.linalg.inv(A_star)),
        "eps_w": norm(w - instance.phi(w, instance.lam)),
    }
    over_tk = {
        "error": norm(c[:, None] + apply(Z_T, v_k) - instance.hypergradient),
        "ZT_dv": norm(apply(Z_T, v_k - v)),
        "solve_error": norm(apply(Z_T, v_k - v_t[:, None])),
        "v_k": norm(v_k),
        "dv_k": norm(v_k - v),
        "dv_kt": norm(v_k - v_t[:, None]),
        "eps_v": norm(apply(A[:, None], v_k) - b[:, None]),
        "duT_g": norm(apply(Z_T, v_k) - (b @ w_prime)[:, None]),
    }
    if solver == "fixed-point":
        du = implied(instance, w, K) - w_prime
        over_tk |= {"du": spectral(du), "duT_g": norm(np.einsum("tkan,ta->tkn", du, b))}
    return {name: np.broadcast_to(x, w.shape[:1])[K_axis] for name, x in over_t.items()} | over_tk


def observe_lower(instance: Instance, w: Array) -> dict[str, Array]:
    """What the proofs measure of the iterates and of E, over t."""
    b, c = instance.grad_w(w), instance.grad_lam(w)
    db = b - instance.grad_w(instance.w_star)
    return {
        "r_t": norm(w - instance.w_star),
        "g_t": norm(b),
        "dE_1": norm(db),
        "dE_2": norm(c - instance.grad_lam(instance.w_star)),
        "wT_dE_1": norm(db @ instance.w_prime),
    }


def discounted(r: Array, q: float) -> Array:
    """Σ_{1≤j<t} q^(t−1−j) r_j, given r_0, r_1, …"""
    return np.array([sum(q ** (t - 1 - j) * r[j] for j in range(1, t)) for t in range(len(r))])


def observe_itd(instance: Instance, path: Path, q: float | None = None) -> dict[str, Array]:
    """All quantities of the ITD proofs, over t; with q also those discounted by it."""
    du = path.u - instance.w_prime
    along = {} if q is None else {"path_t": discounted(norm(path.w - instance.w_star), q)}
    return {
        **along,
        **observe_lower(instance, path.w),
        "error": gradient_error(instance, path.w, path.u),
        "dw": spectral(du),
        "dwT_g": norm(np.einsum("tan,ta->tn", du, instance.grad_w(path.w))),
    }


def augmented_aid(instance: Instance, method: Momentum, w: Array, K: int) -> Array:
    """The error over (t, k) of AID-FP for the momentum map on z = (w_t, w_{t−1}): v ← Mᵀv + ∇_zE(z_t) from 0."""
    d, alpha = w.shape[1], method.alpha / instance.fixed["alpha"]
    eye, x = np.eye(d), np.eye(d) - alpha * (np.eye(d) - instance.d1phi(instance.w_star))
    extrapolated = w + method.beta * (w - np.vstack([w[:1], w[:-1]]))
    if method.name == "heavy-ball":
        top, at = np.hstack([x + method.beta * eye, -method.beta * eye]), w
    else:
        top, at = np.hstack([(1 + method.beta) * x, -method.beta * x]), extrapolated
    M = np.vstack([top, np.hstack([eye, 0 * eye])])
    b = np.hstack([instance.grad_w(w), np.zeros_like(w)])
    v = fixed_point(np.broadcast_to(np.eye(2 * d) - M.T, (len(w), 2 * d, 2 * d)), b, K)
    Z = alpha * instance.d2phi(at)  # the lower half of the map does not see λ
    estimate = instance.grad_lam(w)[:, None] + np.einsum("tan,tka->tkn", Z, v[..., :d])
    return norm(estimate - instance.hypergradient)

"""Means over all draws of SID, computed without sampling: moments of a finite sum of affine maps, and enumeration.

Plain numpy, and nothing from the library but its step schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

Array = np.ndarray


def spectral(M: Array) -> float:
    return float(np.linalg.norm(M, 2))


def mean_of(maps: Array, M: Array) -> Array:
    """The mean over j of T_j M T_jᵀ, for every M."""
    return np.einsum("jab,tbc,jdc->tad", maps, M, maps) / len(maps)


@dataclass(frozen=True)
class Means:
    """Means over all draws, over t and k; `mse_v` over t and k is that of v_k around v(w_t)."""

    bias: Array
    mse: Array
    variance_given_w: Array
    variance_of_mean: Array
    mse_w: Array
    mse_v: Array


@dataclass(frozen=True)
class AtSteps:
    """Means over all draws at w_i, before each step i: what the proofs for the iterates take step by step."""

    noise: Array  # E V[Φ̂(w_i)|w_i]
    moves: Array  # E‖Φ(w_i)−w_i‖²
    away: Array  # E‖w_i−w*‖²
    pull: Array  # E⟨w_i−Φ(w_i), w_i−w*⟩, for a gradient step α E⟨∇₁ℓ(w_i), w_i−w*⟩


@dataclass(frozen=True, eq=False)
class AffineSum:
    """Φ̂_j(w,λ) = A_j w + B_j λ + c_j for one j out of N at random, ∇₁E = Hw + h, ∇₂E = Pw + p."""

    A: Array
    B: Array
    c: Array
    H: Array
    h: Array
    P: Array
    p: Array
    lam: Array
    w_0: Array
    alpha: float = 0.0  # A_j = I − α·(Hessian of ℓ_j), if it is one
    name: str = "affine"

    @cached_property
    def offsets(self) -> Array:
        return self.B @ self.lam + self.c

    @cached_property
    def w_star(self) -> Array:
        return np.linalg.solve(np.eye(len(self.w_0)) - self.A.mean(0), self.offsets.mean(0))

    @cached_property
    def hypergradient(self) -> Array:
        v = np.linalg.solve(np.eye(len(self.w_0)) - self.A.mean(0).T, self.H @ self.w_star + self.h)
        return self.P @ self.w_star + self.p + self.B.mean(0).T @ v

    @cached_property
    def constants(self) -> dict[str, float]:
        """All constants, exact but for suprema over the ball, which every iterate of every path stays in."""
        A, B = self.A.mean(0), self.B.mean(0)
        dA, dB, at_star = self.A - A, self.B - B, self.A @ self.w_star + self.offsets - self.w_star
        q, r_0, longest = spectral(A), np.linalg.norm(self.w_0 - self.w_star), max(map(spectral, self.A))
        assert longest < 1
        radius = max(r_0, np.linalg.norm(at_star, axis=1).max() / (1 - longest))
        m_1 = max(spectral(np.einsum("jba,jbc->ac", dA, dA)), spectral(np.einsum("jab,jcb->ac", dA, dA))) / len(dA)
        V_star = (at_star**2).sum(1).mean()
        found = {
            "q": q, "nu_1": 0.0, "nu_2": 0.0, "eta_1": spectral(self.H), "eta_2": spectral(self.P),
            "L_E": np.linalg.norm(self.H @ self.w_star + self.h) + spectral(self.H) * radius,
            "L_Phi_star": spectral(B), "W": spectral(np.linalg.solve(np.eye(len(A)) - A, B)), "m_1": m_1,
            "m_2": spectral(np.einsum("jab,jcb->ac", dB, dB)) / len(dB), "L_Phi_hat": longest, "V_star": V_star,
            "sigma_1": 2 * V_star, "sigma_2": 2 * m_1 / (1 - q) ** 2, "mse_0": r_0**2,
        }  # fmt: skip
        if self.alpha:
            curvature = np.linalg.eigvalsh((np.eye(len(A)) - A) / self.alpha)
            found |= {"mu": curvature[0], "L": curvature[-1], "alpha": self.alpha}
            each = np.linalg.eigvalsh((np.eye(len(A)) - self.A) / self.alpha)
            apart = min(each.min(), curvature[0])  # curvature[0] is larger but for rounding
            found |= {"mu_ell_hat": apart, "L_ell_hat": each.max() - apart}
            found |= {"sigma_1_grad": 2 * V_star / self.alpha**2}
            found |= {"sigma_2_grad": 2 * m_1 / (self.alpha * curvature[0]) ** 2}
        return {name: float(value) for name, value in found.items()}

    def at_steps(self, steps: Sequence[float]) -> AtSteps:
        """Before each of these steps."""
        d = len(self.w_0)
        maps = np.concatenate([self.offsets[:, :, None], self.A], axis=2)  # Φ̂_j(w) = maps_j(1, w)
        apart, identity = maps - maps.mean(0), np.hstack([np.zeros((d, 1)), np.eye(d)])
        residual, away = maps.mean(0) - identity, identity - np.outer(self.w_star, np.eye(1 + d)[0])
        start = np.concatenate([[1.0], self.w_0])
        M, found = np.outer(start, start), []
        for eta in steps:
            noise = np.einsum("jab,bc,jac->", apart, M, apart) / len(apart)
            of_mean = (np.trace(x @ M @ y.T) for x, y in ((residual, residual), (away, away), (-residual, away)))
            found.append((noise, *of_mean))
            T = np.tile(np.eye(1 + d), (len(maps), 1, 1))
            T[:, 1:] += eta * (maps - identity)
            M = mean_of(T, M[None])[0]
        return AtSteps(*(np.array(column) for column in zip(*found, strict=True)))

    def means(self, steps: Sequence[float], steps_v: Sequence[float]) -> Means:
        """At t = 0 … len(steps) and k = 0 … len(steps_v)."""
        d, N = len(self.w_0), len(self.A)
        size = 1 + 2 * d  # of (1, w, v)
        w, v = slice(1, 1 + d), slice(1 + d, size)
        start = np.concatenate([[1.0], self.w_0, np.zeros(d)])
        moments = [np.outer(start, start)]
        for eta in steps:
            T = np.tile(np.eye(size), (N, 1, 1))
            T[:, w, 0], T[:, w, w] = eta * self.offsets, (1 - eta) * np.eye(d) + eta * self.A
            moments.append(mean_of(T, moments[-1][None])[0])
        M = of_w = np.array(moments)
        G = np.zeros((N, len(self.p), size))
        G[:, :, 0], G[:, :, w], G[:, :, v] = self.p - self.hypergradient, self.P, self.B.swapaxes(1, 2)
        inverse = np.linalg.inv(np.eye(d) - self.A.mean(0).T)
        to_v = np.hstack([-(inverse @ self.h)[:, None], -inverse @ self.H, np.eye(d)])  # v − v(w)
        V = np.zeros((d, 1 + d))  # E[v_k|w] = V(1, w)
        columns = []
        for k in range(len(steps_v) + 1):
            C = G.mean(0)[:, : 1 + d] + self.B.mean(0).T @ V
            bias = np.linalg.norm(M[:, :, 0] @ G.mean(0).T, axis=1)
            mse = np.einsum("jna,tab,jnb->t", G, M, G) / N
            of_mean = np.einsum("na,tab,nb->t", C, of_w[:, : 1 + d, : 1 + d], C)
            columns.append((bias, mse, mse - of_mean, of_mean - bias**2, np.einsum("na,tab,nb->t", to_v, M, to_v)))
            if k == len(steps_v):
                break
            eta = steps_v[k]
            T = np.tile(np.eye(size), (N, 1, 1))
            T[:, v, 0], T[:, v, w] = eta * self.h, eta * self.H
            T[:, v, v] = (1 - eta) * np.eye(d) + eta * self.A.swapaxes(1, 2)
            M = mean_of(T, M)
            V = (1 - eta) * V + eta * (self.A.mean(0).T @ V + np.hstack([self.h[:, None], self.H]))
        bias, mse, given, of_mean, mse_v = (np.array(column).T for column in zip(*columns, strict=True))
        away = np.hstack([-self.w_star[:, None], np.eye(d)])
        mse_w = np.einsum("na,tab,nb->t", away, of_w[:, : 1 + d, : 1 + d], away)
        return Means(bias, mse, given, of_mean, mse_w, mse_v)


@dataclass(frozen=True)
class ScalarSum:
    """The same in one dimension for any functions of the draw j and of w, by going through every sequence of draws."""

    phi: Callable[[int, float], float]
    d1phi: Callable[[int, float], float]
    d2phi: Callable[[int, float], float]
    grad_w: Callable[[float], float]
    grad_lam: Callable[[float], float]
    N: int

    def paths(self, w_0: float, steps: Sequence[float]) -> list[float]:
        """w_t of every path."""
        found = []
        for draws in product(range(self.N), repeat=len(steps)):
            w = w_0
            for eta, j in zip(steps, draws, strict=True):
                w += eta * (self.phi(j, w) - w)
            found.append(w)
        return found

    def linear(self, w: float, draws: Sequence[int], steps: Sequence[float]) -> float:
        v = 0.0
        for eta, j in zip(steps, draws, strict=True):
            v += eta * (self.d1phi(j, w) * v + self.grad_w(w) - v)
        return v

    def means(self, w_0: float, w_star: float, v_of: Callable[[float], float], true: float, steps: Sequence[float],
              steps_v: Sequence[float]) -> Means:  # fmt: skip
        """At t = len(steps) and k = len(steps_v) alone."""
        ends = np.array(self.paths(w_0, steps))
        given_w, of_v = [], []
        for w in ends:
            v = np.array([self.linear(w, draws, steps_v) for draws in product(range(self.N), repeat=len(steps_v))])
            last = np.array([self.d2phi(j, w) for j in range(self.N)])
            given_w.append((self.grad_lam(w) + np.outer(v, last)).ravel() - true)
            of_v.append(((v - v_of(w)) ** 2).mean())
        g = np.array(given_w)
        each = [abs(g.mean()), (g**2).mean(), g.var(axis=1).mean(), g.mean(axis=1).var()]
        return Means(*map(np.asarray, (*each, ((ends - w_star) ** 2).mean(), max(of_v))))

    def mean_with_one_draw(self, w_0: float, steps: Sequence[float], steps_v: Sequence[float]) -> float:
        """E of the hypergradient if one draw is used for every w, for every v and for the last product."""
        values = []
        for j in range(self.N):
            w = w_0
            for eta in steps:
                w += eta * (self.phi(j, w) - w)
            v = self.linear(w, [j] * len(steps_v), steps_v)
            values.append(self.grad_lam(w) + self.d2phi(j, w) * v)
        return float(np.mean(values))

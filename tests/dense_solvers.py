"""Solvers of the linear system with dense matrices: every iterate from 0 to K."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def apply(M: Array, x: Array) -> Array:
    """Each matrix of a stack times its vector."""
    return np.einsum("...ab,...b->...a", M, x)


def fixed_point(A: Array, b: Array, K: int) -> Array:
    """v ← (I−A)v + b from 0."""
    v = [np.zeros_like(b)]
    for _ in range(K):
        v.append(v[-1] - apply(A, v[-1]) + b)
    return np.stack(v, axis=1)


def cg(A: Array, b: Array, K: int) -> Array:
    """Conjugate gradient from 0 on symmetric A; a system already solved stays where it is."""
    v, r, p = np.zeros_like(b), b, b
    path = [v]
    for _ in range(K):
        Ap, rr = apply(A, p), np.sum(r * r, -1, keepdims=True)
        pAp = np.sum(p * Ap, -1, keepdims=True)
        step = np.divide(rr, pAp, out=np.zeros_like(rr), where=pAp > 0)
        v, r = v + step * p, r - step * Ap
        p = r + np.divide(np.sum(r * r, -1, keepdims=True), rr, out=np.zeros_like(rr), where=rr > 0) * p
        path.append(v)
    return np.stack(path, axis=1)


def cgn(A: Array, b: Array, K: int) -> Array:
    """Conjugate gradient on AᵀAv = Aᵀb."""
    A_T = np.swapaxes(A, -1, -2)
    return cg(A_T @ A, apply(A_T, b), K)


def exact(A: Array, b: Array, K: int) -> Array:
    """The solution, at every k."""
    return np.repeat(np.linalg.solve(A, b[..., None])[..., 0][:, None], K + 1, axis=1)


SOLVERS = {"fixed-point": fixed_point, "cg": cg, "cgn": cgn, "exact": exact}

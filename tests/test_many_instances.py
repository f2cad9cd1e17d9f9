"""Our own bounds on 10⁴ random instances each, far from w* and near, in one batch."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from runs import Array, cg, fixed_point, norm, spectral

from boundcheck import bounds
from boundcheck.theory.evaluation import evaluate

MANY, d, n, K = 10_000, 3, 2, 4
AID = ("cg", "fixed-point")
STEEPEST = 4 / (3 * np.sqrt(3))  # sup |2 sech² tanh|


def apply(M: Array, x: Array) -> Array:
    return np.einsum("iab,ib->ia", M, x)


@cache
def batch(method: str, seed: int = 0) -> dict[str, Array]:
    """Steps of gradient descent on ½wᵀHw − bᵀw + Σc_i log cosh w_i + Σλ_jwᵀH_jw/2, then of a linear solver, at λ = 0.

    `method` is "itd", with t ≤ 4, or "cg" or "fixed-point", with k ≤ 4 and t = 0. E = ½wᵀQw + pᵀw + λᵀRw. Constants
    hold everywhere: μ and L from H and c, ρ̂₁ = max c·sup|2 sech² tanh|, ρ̂₂ ≤ (Σ‖H_j‖²)^½. In every other instance c is
    0, in every third H is near a multiple of I.
    """
    rng = np.random.default_rng(seed)
    every = np.arange(MANY)
    spectrum = np.where(every[:, None] % 3 == 0, 1.01, rng.uniform(1, 50, (MANY, 1))) ** rng.uniform(0, 1, (MANY, d))
    V = np.linalg.qr(rng.normal(size=(MANY, d, d)))[0]
    H = V * spectrum[:, None] @ np.swapaxes(V, 1, 2)
    c = rng.uniform(0, 3, (MANY, d)) * (every % 2)[:, None]
    H_j, Q = rng.normal(size=(MANY, n, d, d)), rng.normal(size=(MANY, d, d)) * rng.choice([0, 1], (MANY, 1, 1))
    H_j, Q = H_j + np.swapaxes(H_j, -1, -2), Q + np.swapaxes(Q, -1, -2)
    b, p, R = rng.normal(size=(MANY, d)), rng.normal(size=(MANY, d)), rng.normal(size=(MANY, n, d))
    mu, L = spectrum.min(axis=1), spectrum.max(axis=1) + c.max(axis=1)
    alpha = 2 / (mu + L)

    def grad(w: Array) -> Array:
        return apply(H, w) - b + c * np.tanh(w)

    def hessian(w: Array) -> Array:
        return H + np.eye(d) * (c / np.cosh(w) ** 2)[:, None]

    def at(w: Array, solver: str) -> dict[str, Array]:
        A, Z = alpha[:, None, None] * hessian(w), -alpha[:, None, None] * np.einsum("ijab,ib->iaj", H_j, w)
        g = apply(Q, w) + p
        exact = np.linalg.solve(A, g[..., None])[..., 0]
        v = {"cg": cg, "fixed-point": fixed_point}[solver](A, g, K)[every, k] if solver in AID else exact
        value = apply(R, w) + np.einsum("iaj,ia->ij", Z, v)
        w_prime = np.linalg.solve(A, Z)
        return {"A": A, "Z": Z, "g": g, "exact": exact, "v": v, "value": value, "w_prime": w_prime}

    w_star = np.zeros((MANY, d))
    for _ in range(60):
        w_star = w_star - np.linalg.solve(hessian(w_star), grad(w_star)[..., None])[..., 0]
    assert norm(grad(w_star)).max() < 1e-12
    k = rng.integers(0, K + 1, MANY)
    direction = rng.normal(size=(MANY, d))
    w = w_star + direction / norm(direction)[:, None] * 10.0 ** rng.uniform(-6, 0.5, (MANY, 1))
    star, r_0 = at(w_star, "exact"), norm(w - w_star)
    q, steps, u, path = (L - mu) / (L + mu), np.zeros(MANY), np.zeros((MANY, d, n)), np.zeros(MANY)
    if method == "itd":
        steps = rng.integers(0, K + 1, MANY).astype(float)
        for j in range(K):
            now, point = j < steps, at(w, "exact")
            u = np.where(now[:, None, None], u - point["A"] @ u + point["Z"], u)
            path = np.where(now, q * path + (norm(w - w_star) if j else 0), path)
            w = np.where(now[:, None], w - alpha[:, None] * grad(w), w)
    here = at(w, method)
    if method == "itd":
        here["value"] = apply(R, w) + np.einsum("iaj,ia->ij", u, here["g"])
    excess = alpha[:, None] * grad(w)
    apart = here["v"] - here["exact"]
    off = rng.normal(size=(MANY, n)) * 10.0 ** rng.uniform(-8, 0, (MANY, 1))
    return {
        "error": norm(here["value"] - star["value"]),
        "scale": norm(star["value"]) + norm(here["value"]),
        "gap_t": norm(here["value"] - star["value"] - off),
        "eps_g": norm(off),
        "t": steps,
        "path_t": path,
        "r_t": norm(w - w_star),
        "g_t": norm(here["g"]),
        "k": k.astype(float),
        "q": q,
        "kappa": L / mu,
        "mu_inv": alpha * mu,
        "nu_1": alpha * STEEPEST * c.max(axis=1),
        "nu_2": alpha * np.sqrt((spectral(H_j) ** 2).sum(axis=1)),
        "eta_1": spectral(Q),
        "eta_2": spectral(R),
        "W": spectral(star["w_prime"]),
        "g_star": norm(star["g"]),
        "L_Phi_star": spectral(star["Z"]),
        "r_0": r_0,
        "eps_w": norm(excess),
        "eps_v": norm(apply(here["A"], here["v"]) - here["g"]),
        "W_t": spectral(here["w_prime"]),
        "v_t": norm(here["exact"]),
        "v_k": norm(here["v"]),
        "newton_t": norm(np.linalg.solve(here["A"], excess[..., None])[..., 0]),
        "A_t_inv": 1 / np.linalg.eigvalsh(here["A"])[:, 0],
        "solve_error": norm(np.einsum("iaj,ia->ij", here["Z"], apart)),
    }


CASES = [
    ("aid-newton", "cg", 0.8),
    ("aid-certificate", "cg", 0.7),
    ("aid-cg-local", "cg", 1.0),
    ("aid-path", "cg", 1.0),
    ("aid-path", "fixed-point", 1.0),
    ("aid-fp-path", "fixed-point", 1.0),
    ("aid-fp-local", "fixed-point", 1.0),
    ("itd-path", "itd", 1.0),
    ("itd-local", "itd", 1.0),
    ("enclosure", "itd", 1.0),
    ("enclosure", "cg", 1.0),
]


@pytest.mark.parametrize(("name", "method", "speaks"), CASES)
def test_none_exceeds_the_bound(name: str, method: str, speaks: float) -> None:
    """`speaks` is the part of all instances on which the conditions of the theorem hold, at least."""
    bound, values = bounds[name], batch(method)
    formula = bound.resolved()
    fits = np.ones(MANY, dtype=bool)
    for condition in bound.conditions:
        sides = [condition.left, condition.right]
        left, right = (evaluate(bound.substitute(side, frozenset()), needed(side, values)) for side in sides)
        fits &= left <= right
    assert fits.mean() >= speaks
    worth = evaluate(formula, needed(formula, values))
    rounding = 1e-12 * (1 + values["scale"])
    assert (values["error"] <= worth + rounding)[fits].all()
    assert (values["error"] / worth)[fits].max() > 0.3  # it is not far above all of them either


def needed(formula: object, values: dict[str, Array]) -> dict[str, Array]:
    found = {symbol.name: values[symbol.name] for symbol in formula.free_symbols}
    return found or {"t": values["t"]}


def test_the_enclosure_holds_from_below() -> None:
    values = batch("itd")
    assert (values["error"] >= values["gap_t"] - values["eps_g"] - 1e-12 * (1 + values["scale"])).all()

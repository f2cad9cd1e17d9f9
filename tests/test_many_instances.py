"""Our own bounds on 10⁴ random instances each, far from w* and near, in one batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from dense_solvers import cg, fixed_point
from runs import Array, norm, spectral

from boundcheck import bounds
from boundcheck.theory.evaluation import evaluate

MANY, d, n, K = 10_000, 3, 2, 4
STEEPEST = 4 / (3 * np.sqrt(3))  # sup |2 sech² tanh|
EVERY = np.arange(MANY)


def apply(M: Array, x: Array) -> Array:
    return np.einsum("iab,ib->ia", M, x)


def length(A: Array) -> Array:
    """At least the norm of w ↦ [A_jw]."""
    return np.sqrt((spectral(A) ** 2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Batch:
    """Φ at λ = 0 with its derivatives; `constants` hold everywhere."""

    phi: Callable[[Array], Array]
    Y: Callable[[Array], Array]
    Z: Callable[[Array], Array]
    constants: dict[str, Array]


def descent(rng: np.random.Generator) -> Batch:
    """Gradient descent on ½wᵀHw − bᵀw + Σc_i log cosh w_i + Σλ_jwᵀH_jw/2, μ and L from H and c, ρ̂₁ = max c·STEEPEST.

    In every other instance c is 0, in every third H is near a multiple of I.
    """
    spectrum = np.where(EVERY[:, None] % 3 == 0, 1.01, rng.uniform(1, 50, (MANY, 1))) ** rng.uniform(0, 1, (MANY, d))
    V = np.linalg.qr(rng.normal(size=(MANY, d, d)))[0]
    H = V * spectrum[:, None] @ np.swapaxes(V, 1, 2)
    c, b = rng.uniform(0, 3, (MANY, d)) * (EVERY % 2)[:, None], rng.normal(size=(MANY, d))
    H_j = rng.normal(size=(MANY, n, d, d))
    H_j = H_j + np.swapaxes(H_j, -1, -2)
    mu, L = spectrum.min(axis=1), spectrum.max(axis=1) + c.max(axis=1)
    alpha = 2 / (mu + L)
    constants = {"q": (L - mu) / (L + mu), "kappa": L / mu, "mu_inv": alpha * mu, "nu_2": alpha * length(H_j)}
    return Batch(
        lambda w: w - alpha[:, None] * (apply(H, w) - b + c * np.tanh(w)),
        lambda w: np.eye(d) - alpha[:, None, None] * (H + np.eye(d) * (c / np.cosh(w) ** 2)[:, None]),
        lambda w: -alpha[:, None, None] * np.einsum("ijab,ib->iaj", H_j, w),
        constants | {"nu_1": alpha * STEEPEST * c.max(axis=1)},
    )


def turning(rng: np.random.Generator) -> Batch:
    """Φ = U(a∘sin(sVw))/s + b + Σλ_j(A_jw + B_j), not symmetric: U, V orthogonal, so that q = max|a| and ν₁ = qs.

    In every other instance s is 10⁻³, and Φ all but linear.
    """
    U, V = (np.linalg.qr(rng.normal(size=(MANY, d, d)))[0] for _ in range(2))
    s, a = np.where(EVERY % 2, 1.0, 1e-3), rng.uniform(-0.9, 0.9, (MANY, d))
    b, A, B = rng.normal(size=(MANY, d)), rng.normal(size=(MANY, n, d, d)), rng.normal(size=(MANY, d, n))
    q = abs(a).max(axis=1)
    return Batch(
        lambda w: apply(U, a * np.sin(s[:, None] * apply(V, w)) / s[:, None]) + b,
        lambda w: U @ ((a * np.cos(s[:, None] * apply(V, w)))[..., None] * V),
        lambda w: np.einsum("ijab,ib->iaj", A, w) + B,
        {"q": q, "kappa": (1 + q) / (1 - q), "mu_inv": 1 - q, "nu_1": q * s, "nu_2": length(A)},
    )


@cache
def measured(make: Callable[[np.random.Generator], Batch], method: str, seed: int = 0) -> dict[str, Array]:
    """`method` is "itd", with t ≤ 4, or "cg" or "fixed-point", with k ≤ 4 and t = 0. E = ½wᵀQw + pᵀw + λᵀRw."""
    rng = np.random.default_rng(seed)
    batch = make(rng)
    Q = rng.normal(size=(MANY, d, d)) * rng.choice([0, 1], (MANY, 1, 1))
    Q, p, R = Q + np.swapaxes(Q, -1, -2), rng.normal(size=(MANY, d)), rng.normal(size=(MANY, n, d))
    k = rng.integers(0, K + 1, MANY)
    solvers = {"cg": cg, "fixed-point": fixed_point}

    def at(w: Array, solver: str) -> dict[str, Array]:
        A, Z, g = np.eye(d) - batch.Y(w), batch.Z(w), apply(Q, w) + p
        A_T = np.swapaxes(A, 1, 2)
        exact = np.linalg.solve(A_T, g[..., None])[..., 0]
        v = solvers[solver](A_T, g, K)[EVERY, k] if solver in solvers else exact
        value = apply(R, w) + np.einsum("iaj,ia->ij", Z, v)
        result = {"A": A, "A_T": A_T, "Z": Z, "g": g, "exact": exact, "v": v, "value": value}
        return result | {"w_prime": np.linalg.solve(A, Z)}

    w_star = np.zeros((MANY, d))
    for _ in range(300):
        w_star = batch.phi(w_star)
    for _ in range(5):
        w_star = w_star - np.linalg.solve(np.eye(d) - batch.Y(w_star), (w_star - batch.phi(w_star))[..., None])[..., 0]
    assert norm(w_star - batch.phi(w_star)).max() < 1e-11
    direction = rng.normal(size=(MANY, d))
    w = w_star + direction / norm(direction)[:, None] * 10.0 ** rng.uniform(-6, 0.5, (MANY, 1))
    star, r_0, q = at(w_star, "exact"), norm(w - w_star), batch.constants["q"]
    steps, u, path = np.zeros(MANY), np.zeros((MANY, d, n)), np.zeros(MANY)
    if method == "itd":
        steps = rng.integers(0, K + 1, MANY).astype(float)
        for j in range(K):
            now = j < steps
            u = np.where(now[:, None, None], batch.Y(w) @ u + batch.Z(w), u)
            path = np.where(now, q * path + (norm(w - w_star) if j else 0), path)
            w = np.where(now[:, None], batch.phi(w), w)
    here = at(w, method)
    if method == "itd":
        here["value"] = apply(R, w) + np.einsum("iaj,ia->ij", u, here["g"])
    excess = w - batch.phi(w)
    off = rng.normal(size=(MANY, n)) * 10.0 ** rng.uniform(-8, 0, (MANY, 1))
    return batch.constants | {
        "error": norm(here["value"] - star["value"]),
        "scale": norm(star["value"]) + norm(here["value"]),
        "gap_t": norm(here["value"] - star["value"] - off),
        "eps_g": norm(off),
        "t": steps,
        "k": k.astype(float),
        "path_t": path,
        "r_0": r_0,
        "r_t": norm(w - w_star),
        "g_t": norm(here["g"]),
        "g_star": norm(star["g"]),
        "eta_1": spectral(Q),
        "eta_2": spectral(R),
        "W": spectral(star["w_prime"]),
        "W_t": spectral(here["w_prime"]),
        "L_Phi_star": spectral(star["Z"]),
        "eps_w": norm(excess),
        "eps_v": norm(apply(here["A_T"], here["v"]) - here["g"]),
        "v_t": norm(here["exact"]),
        "v_k": norm(here["v"]),
        "newton_t": norm(np.linalg.solve(here["A"], excess[..., None])[..., 0]),
        "A_t_inv": spectral(np.linalg.inv(here["A"])),
        "solve_error": norm(np.einsum("iaj,ia->ij", here["Z"], here["v"] - here["exact"])),
    }


CASES = [
    (descent, "aid-newton", "cg", 0.8),
    (descent, "aid-certificate", "cg", 0.7),
    (descent, "aid-cg-local", "cg", 1.0),
    (descent, "aid-path", "cg", 1.0),
    (descent, "aid-fp-path", "fixed-point", 1.0),
    (descent, "aid-fp-local", "fixed-point", 1.0),
    (descent, "itd-path", "itd", 1.0),
    (descent, "itd-local", "itd", 1.0),
    (descent, "enclosure", "cg", 1.0),
    (turning, "aid-newton", "fixed-point", 0.7),
    (turning, "aid-certificate", "fixed-point", 0.7),
    (turning, "aid-path", "fixed-point", 1.0),
    (turning, "aid-fp-path", "fixed-point", 1.0),
    (turning, "itd-path", "itd", 1.0),
    (turning, "enclosure", "itd", 1.0),
]


@pytest.mark.parametrize(("make", "name", "method", "speaks"), CASES)
def test_none_exceeds_the_bound(
    make: Callable[[np.random.Generator], Batch], name: str, method: str, speaks: float
) -> None:
    """`speaks` is the part of all instances on which the conditions of the theorem hold, at least."""
    bound, values = bounds[name], measured(make, method)
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
    result = {symbol.name: values[symbol.name] for symbol in formula.free_symbols}
    return result or {"t": values["t"]}


@cache
def foretold(method: str, seed: int = 1) -> dict[str, Array]:
    """Gradient descent on ½wᵀHw − bᵀw + Σλ_jwᵀH_jw/2: the error of a run, and the terms of its bound from the spectrum.

    w_t = w* + VP(h)Vᵀ(w_0 − w*) with P(h) = (1 − αh)^t, and w_t' − w' = DP(H)[H_j](w_0 − w*) − P(H)w', where DP(H)[H_j]
    is H_j in eigenvectors times the divided differences of P, entry by entry. α is any step below 2/L.
    """
    rng = np.random.default_rng(seed)
    h = rng.uniform(1, 100, (MANY, 1)) ** rng.uniform(0, 1, (MANY, d))
    h[::3, 1] = h[::3, 0]  # an eigenvalue twice
    V = np.linalg.qr(rng.normal(size=(MANY, d, d)))[0]
    H, H_j = V * h[:, None] @ np.swapaxes(V, 1, 2), rng.normal(size=(MANY, n, d, d))
    H_j = H_j + np.swapaxes(H_j, -1, -2)
    alpha = rng.uniform(0.1, 1.9, MANY) / h.max(axis=1)
    w_star, w_0 = rng.normal(size=(MANY, d)), rng.normal(size=(MANY, d)) * rng.choice([0, 1], (MANY, 1))
    Q, p, R = rng.normal(size=(MANY, d, d)), rng.normal(size=(MANY, d)), rng.normal(size=(MANY, n, d))
    Q, t = Q + np.swapaxes(Q, -1, -2), rng.integers(0, 40, MANY)
    k = rng.integers(0, 40, MANY)

    def at(w: Array) -> tuple[Array, Array, Array]:
        return -alpha[:, None, None] * np.einsum("ijab,ib->iaj", H_j, w), apply(Q, w) + p, apply(R, w)

    A = alpha[:, None, None] * H
    w_prime = np.linalg.solve(A, at(w_star)[0])
    w, u = w_0, np.zeros((MANY, d, n))
    for step in range(int(t.max())):  # the run
        now = step < t
        u = np.where(now[:, None, None], u - A @ u + at(w)[0], u)
        w = np.where(now[:, None], w - apply(A, w - w_star), w)
    if method == "itd":
        value = at(w)[2] + np.einsum("iaj,ia->ij", u, at(w)[1])
    else:
        v = fixed_point(A, at(w)[1], int(k.max()))[EVERY, k]
        value = at(w)[2] + np.einsum("iaj,ia->ij", at(w)[0], v)
    Z, b, c = at(w_star)
    exact = c + np.einsum("iaj,ia->ij", w_prime, b)

    j = 1 - alpha[:, None] * h  # and what is told of it
    powers = j[:, :, None] ** np.arange(41)
    w_t = w_star + apply(V, powers[EVERY, :, t] * apply(np.swapaxes(V, 1, 2), w_0 - w_star))
    Z_t, b_t, c_t = at(w_t)
    terms = {"dE_2": norm(c_t - c), "wT_dE_1": norm(np.einsum("iaj,ia->ij", w_prime, b_t - b))}
    if method == "itd":
        differences = np.zeros((MANY, d, d))
        for step in range(int(t.max())):
            ones = np.where((step < t)[:, None, None], 1.0, 0.0)
            last = powers[EVERY, :, np.maximum(t - 1 - step, 0)]
            differences -= ones * alpha[:, None, None] * last[:, :, None] * powers[:, :, step][:, None]
        inside = np.einsum("iab,ijbc,icd->ijad", np.swapaxes(V, 1, 2), H_j, V) * differences[:, None]
        moved = np.einsum("iab,ijbc,idc,id->iaj", V, inside, V, w_0 - w_star)
        du = moved - (V * powers[EVERY, :, t][:, None] @ np.swapaxes(V, 1, 2)) @ w_prime
        terms["dwT_g"] = norm(np.einsum("iaj,ia->ij", du, b_t))
    else:
        sums = (1 - powers[EVERY, :, k]) / (1 - j)
        v_k, v = apply(V, sums * apply(np.swapaxes(V, 1, 2), b_t)), np.linalg.solve(A, b[..., None])[..., 0]
        read = np.einsum("iaj,ia->ij", Z_t, v_k)
        terms["dZT_v"] = norm(np.einsum("iaj,ia->ij", Z_t - Z, v))
        terms["ZT_dv"] = norm(np.einsum("iaj,ia->ij", Z_t, v_k - v))
        terms["duT_g"] = norm(read - np.einsum("iaj,ia->ij", w_prime, b_t))
    return terms | {"error": norm(value - exact), "scale": norm(value) + norm(exact)}


@pytest.mark.parametrize(("name", "method"), [("itd-spectral", "itd"), ("aid-spectral", "fixed-point")])
def test_the_spectrum_foretells_a_bound(name: str, method: str) -> None:
    values = foretold(method)
    worth = evaluate(bounds[name].formula, needed(bounds[name].formula, values))
    rounding = 1e-10 * (1 + values["scale"])  # condition numbers up to 10³, 40 steps, inverses twice
    assert (values["error"] <= worth + rounding).all()
    seen = values["error"] > 1e3 * rounding
    ratio = worth[seen] / values["error"][seen]
    assert ratio.min() < 1 + 1e-3
    assert np.quantile(ratio, 0.9) < 10


def test_the_enclosure_holds_from_below() -> None:
    values = measured(descent, "itd")
    assert (values["error"] >= values["gap_t"] - values["eps_g"] - 1e-12 * (1 + values["scale"])).all()

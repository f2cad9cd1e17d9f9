"""The proof chains of stochastic iterations and of Theorem 5.1 on exact means: no link may fall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from exact_moments import AffineSum, Array, AtSteps
from stochastic_instances import (
    NoiseAt,
    T,
    affine,
    affine_noise,
    affine_runs,
    applies,
    noise_at,
    own_steps,
)

from boundcheck import bounds
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.chain import ChainValues

CHAINED = [name for name in bounds if bounds[name].chain and bounds[name].stochastic]
ALONG = [name for name in CHAINED if not {"mse_w", "eps_w"} & set(bounds[name].symbols)]
ITERATES = [name for name in ALONG if bounds[name].bounds.name == "mse_w"]
OF_HYPERGRADIENTS = ("bias", "mse", "variance_given_w", "variance_of_mean")
SEEDS = range(24)
Values = dict[str, Array | float]


def kept(name: str, c: Mapping[str, float], eta: Array) -> Array:
    """What the proof of this bound lets a step keep of E‖w_i−w*‖²."""
    if name == "sgd-convex":
        return (1 - eta * c["alpha"] * c["mu"]) ** 2
    if name == "stochastic-recursive":
        return (1 - eta * (1 - c["q"])) ** 2
    q = max(1 - c["alpha"] * c["mu"], c["alpha"] * c["L"] - 1) if name.startswith("sgd") else c["q"]
    return 1 - eta * (1 - q**2)


def summed(terms: Array, factors: Array) -> Array:
    """s_0 = 0 and s_{i+1} = r_i s_i + terms_i."""
    sums = [0.0]
    for term, factor in zip(terms, factors, strict=True):
        sums.append(factor * sums[-1] + term)
    return np.array(sums)


def sums(name: str, c: Mapping[str, float], eta: Array, at: AtSteps) -> Values:
    """Every sum that a chain may take, at t = 0 … len(eta), from exact means at each step."""
    r = kept(name, c, eta)
    found: Values = {
        "start_t": c["mse_0"] * np.cumprod([1.0, *r]),
        "noise_t": summed(eta**2 * at.noise, r),
        "moves_t": summed(eta**2 * at.moves, r),
        "averaged_t": summed(eta * (1 - eta) * at.moves, r),
        "squares_t": summed(eta**2 * at.away, r),
        "roots_t": summed(eta**2 * np.sqrt(np.maximum(at.away, 0)), r),
    }
    if "alpha" in c:
        found["curved_t"] = summed(at.pull - c["alpha"] * c["mu"] * at.away, r)
        inner = at.pull - c["alpha"] * c.get("mu_ell_hat", 0.0) * at.away
        found["curved_roots_t"] = summed(np.sqrt(np.maximum(inner, 0)), r)
    if name.endswith("decreasing"):
        sigma_1 = c["alpha"] ** 2 * c["sigma_1_grad"] if name.startswith("sgd") else c["sigma_1"]
        found["M_t"] = found["start_t"] + summed(eta**2 * sigma_1, r)
    return {x: np.maximum(value, 0) for x, value in found.items()}


def chain_on(name: str, c: Mapping[str, float], own: Mapping[str, float], known: Values) -> ChainValues:
    """The chain, with the state of its recursion."""
    bound = bounds[name]
    state = bound.call(c, np.arange(T + 1), None, own).state() if bound.recursion else {}
    indices = {"t": np.arange(T + 1)}
    if "k" in bound.chain.symbols:
        indices = {"t": np.arange(T + 1)[:, None], "k": np.arange(T + 1)[None, :]}
    return bound.chain.evaluate({**known, **c, **own, **indices, **state})


def instances(name: str) -> Iterator[tuple[str, Mapping[str, float], Mapping[str, float], Values]]:
    for seed in SEEDS:
        for run in affine_runs(seed)[::2]:  # with the exact ρ_t
            own = own_steps(name, run)
            if own is None or not applies(name, run, own):
                continue
            eta = np.array([run.steps.at(i) for i in range(T)])
            if name in ITERATES:
                seen = sums(name, run.constants, eta, affine(seed).at_steps(eta))
                yield run.name, run.constants, own, {**seen, "mse_w": np.maximum(run.means.mse_w, 0)}
            else:
                seen = {x: np.maximum(getattr(run.means, x), 0) for x in OF_HYPERGRADIENTS}
                yield run.name, run.constants, own, {**seen, **run.given}


@pytest.mark.parametrize("name", ALONG)
def test_no_slack_is_below_1_in_the_mean(name: str) -> None:
    """Exact means over all draws, rounded at 1e-12 of the largest value."""
    bound, tried = bounds[name], 0
    for label, c, own, known in instances(name):
        links = chain_on(name, c, own, known)
        low = np.argwhere(links.values[1:] < links.values[:-1] * (1 - 1e-9) - 1e-12 * (1 + links.values.max()))
        assert not low.size, f"{label}: {links.links[low[0][0] + 1].name}"
        if bound.recursion is None:
            indices = (np.arange(T + 1)[:, None], np.arange(T + 1)) if name == "sid" else (np.arange(T + 1), None)
            np.testing.assert_allclose(links.values[-1], bound.evaluate(c, *indices, **own).values, rtol=1e-12)
        tried += 1
    assert tried >= 10


def scalar(A: tuple[float, ...], c: tuple[float, ...], w_0: float, alpha: float = 0.0) -> AffineSum:
    """One dimension and E = w, with λ only in w's own map."""
    column, zero, one = np.array(A).reshape(-1, 1, 1), np.zeros((1, 1)), np.ones(1)
    return AffineSum(
        column, np.ones_like(column), np.array(c)[:, None] - 1, zero, one, zero, 0 * one, one, np.array([w_0]), alpha
    )


# per constant: the slopes and offsets of the draws and the start with which a link that uses it is an equality
QUIET, ADDED, STEEP = (((0.6, 0.6), (0, 0), 1.0), ((0.6, 0.6), (1.0, -1.0), 1.0), ((0.8, -0.4), (0, 0), 1.0))
CONSTANT, DECREASING = StepSchedule.constant(0.1), StepSchedule.decreasing(4.0, 60.0)
ATTAINED = {
    "stochastic-constant": {"q": QUIET, "mse_0": QUIET, "sigma_1": ADDED, "sigma_2": STEEP},
    "stochastic-decreasing": {"q": QUIET, "mse_0": QUIET, "sigma_1": ADDED, "sigma_2": STEEP},
    "stochastic-recursive": {"q": QUIET, "mse_0": QUIET, "V_star": ADDED, "m_1": STEEP},
    "sgd-constant": {"mu": QUIET, "mse_0": QUIET, "sigma_1_grad": ADDED, "sigma_2_grad": STEEP},
    "sgd-decreasing": {"mu": QUIET, "mse_0": QUIET, "sigma_1_grad": ADDED, "sigma_2_grad": STEEP},
    "sgd-convex": {"mu": QUIET, "mse_0": QUIET, "V_star": ADDED, "L_ell_hat": STEEP},
}


@pytest.mark.parametrize(("name", "constant"), [(name, x) for name, found in ATTAINED.items() for x in found])
def test_a_constant_that_is_too_small_is_named(name: str, constant: str) -> None:
    """Half of a constant, or μ twice as large, breaks the proof, first at a link that uses it."""
    instance = scalar(*ATTAINED[name][constant], alpha=1.0)
    steps = DECREASING if name.endswith("decreasing") else CONSTANT
    eta = np.array([steps.at(i) for i in range(T)])
    own = {"beta": steps.beta, "gamma": steps.gamma} if steps is DECREASING else {"eta": steps.eta}
    c = tight_noise(instance)
    means, at = instance.means(eta, []).mse_w, instance.at_steps(eta)
    for share in (1.0, 2.0 if constant == "mu" else 0.5):
        wrong = c | {constant: share * c[constant]}
        if constant == "mu":
            wrong["L"] = max(wrong["mu"], c["L"])
        links = chain_on(name, wrong, own, {**sums(name, wrong, eta, at), "mse_w": np.maximum(means, 0)})
        falling = (links.slacks < 1 - 1e-9).any(axis=1)
        assert falling.any() == (share != 1)
    assert constant in links.links[int(np.argmax(falling))].uses


def tight_noise(instance: AffineSum) -> dict[str, float]:
    """The constants, with σ₁, σ₂ and L̂ the least that do in one dimension where only one of V* and m₁ is not 0."""
    c = dict(instance.constants)
    growth = c["m_1"] / (1 - c["q"]) ** 2
    if c["m_1"] > 0:
        c["L_ell_hat"] = c["m_1"] / (c["mu"] - c["mu_ell_hat"])
    return c | {"sigma_1": c["V_star"], "sigma_1_grad": c["V_star"], "sigma_2": growth, "sigma_2_grad": growth}


def noise_chain(at: NoiseAt, constants: Mapping[str, float]) -> ChainValues:
    """The proof of Theorem 4.3 at every point."""
    return bounds["stochastic-noise"].chain.evaluate(
        {**constants, "noise_w": at.noise_w, "eps_w": at.eps_w, "r_t": at.r_t}
    )


def test_no_link_of_theorem_4_3_falls() -> None:
    for seed in SEEDS:
        at = affine_noise(seed)
        values = noise_chain(at, at.constants).values
        assert (values[1:] >= values[:-1] * (1 - 1e-9)).all(), at.name
        end = bounds["stochastic-noise"].evaluate(at.constants, eps_w=at.eps_w).values
        np.testing.assert_allclose(values[-1], end, rtol=1e-12)


@pytest.mark.parametrize("constant", ["V_star", "m_1", "q", "L_Phi_hat"])
def test_a_constant_of_theorem_4_3_that_is_too_small_is_named(constant: str) -> None:
    """Φ̂(w) = ±(w/2 + 1) at w = 2: V* = 1 and m₁r² = 1 are equal, and q = 0. For q Φ̂ = 0.8w or 0.4w."""
    slopes, offsets = ((0.8, 0.4), (0.0, 0.0)) if constant == "q" else ((0.5, -0.5), (1.0, -1.0))
    instance = scalar(slopes, offsets, 2.0)
    at, c = noise_at(instance, np.array([[2.0]])), dict(instance.constants)
    values = noise_chain(at, c).values
    assert (values[-1] == pytest.approx(values[0], rel=1e-12)) == (c["q"] == 0)  # there the theorem is attained
    for share in (1.0, 0.5):
        links = noise_chain(at, c | {constant: share * c[constant]})
        falling = (links.slacks < 1 - 1e-9).any(axis=1)
        assert falling.any() == (share != 1)
    assert constant in links.links[int(np.argmax(falling))].uses


@pytest.mark.parametrize("constant", ["mse_0", "L_E"])
def test_the_rates_of_theorem_5_1_are_attained_at_the_start(constant: str) -> None:
    """ρ_0 = MSE_0 and σ_0 = ‖v(w)‖² = L_E²/(1−q)²: half of either breaks the chain where it enters."""
    instance = scalar(*QUIET)
    c = dict(instance.constants)
    own = {"beta": 2 / (1 - c["q"] ** 2), "gamma": 60.0}
    steps = [own["beta"] / (own["gamma"] + i) for i in range(T)]
    means = instance.means(steps, steps)
    c |= {"nu_2": 0.1, "eta_2": 0.1}  # so that ρ_t matters
    known: Values = {
        x: np.maximum(getattr(means, x), 0) for x in ("bias", "mse", "variance_given_w", "variance_of_mean")
    }
    known |= {"mse_w": np.maximum(means.mse_w, 0)[:, None], "mse_v": np.maximum(means.mse_v[0], 0)[None, :]}
    for share in (1.0, 0.5):
        links = chain_on("sid", c | {constant: share * c[constant]}, own, known)
        falling = (links.slacks < 1 - 1e-9).any(axis=(1, 2))
        assert falling.any() == (share != 1)
    assert constant in links.links[int(np.argmax(falling))].uses

"""Instances for the bounds on minibatch hypergradients, with exact means and proved constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from exact_moments import AffineSum, Array, Means, ScalarSum

from boundcheck import bounds
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.stochastic_recursion import mean_square_distance
from boundcheck.theory.stochastic_steps import advise_recursive

T = 8


@cache
def affine(seed: int) -> AffineSum:
    """Every third is gradient descent, every second has an E that is linear in w."""
    rng = np.random.default_rng(seed)
    N, d, n = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    longest = rng.uniform(0.2, 0.95)
    A = rng.normal(size=(N, d, d)) + rng.normal(size=(d, d)) * rng.uniform(0, 3)
    alpha = 0.0
    if seed % 3 == 0:
        alpha, root = 0.3, A
        A = np.array([np.eye(d) - alpha * (0.5 * np.eye(d) + R @ R.T / np.linalg.norm(R @ R.T, 2)) for R in root])
    else:
        A *= longest / max(np.linalg.norm(a, 2) for a in A)
    H = rng.normal(size=(d, d)) * (seed % 2)
    B, c = (
        rng.normal(size=(N, d, n)) * 10.0 ** rng.uniform(-2, 0.5),
        rng.normal(size=(N, d)) * 10.0 ** rng.uniform(-2, 1),
    )
    return AffineSum(
        A, B, c, H @ H.T,
        rng.normal(size=d), rng.normal(size=(n, d)) * (seed % 2), rng.normal(size=n), rng.normal(size=n),
        rng.normal(size=d) * 10.0 ** rng.uniform(-1, 1), alpha, f"affine {seed}",
    )  # fmt: skip


@dataclass(frozen=True)
class NoiseAt:
    """V[Φ̂(w)] at many points w, with what its bound and its proof take there."""

    name: str
    hypergradient: Array
    constants: Mapping[str, float]
    noise_w: Array
    eps_w: Array
    r_t: Array


def noise_at(instance: AffineSum, points: Array) -> NoiseAt:
    """Of the maps of an instance, exactly."""
    draws = np.einsum("jab,ib->ija", instance.A, points) + instance.offsets
    residuals = np.linalg.norm(draws.mean(1) - points, axis=1)
    away = np.linalg.norm(points - instance.w_star, axis=1)
    variances = draws.var(axis=1).sum(-1)
    return NoiseAt(instance.name, instance.hypergradient, instance.constants, variances, residuals, away)


@cache
def affine_noise(seed: int) -> NoiseAt:
    """At points near w* and far from it."""
    instance, rng = affine(seed), np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-2, 2, size=(20, 1))
    return noise_at(instance, instance.w_star + rng.normal(size=(20, len(instance.w_0))) * sizes)


@dataclass(frozen=True)
class RandomRun:
    """Exact means at every t and k, and what the bounds take: constants, steps, ρ_t and σ_k."""

    name: str
    hypergradient: Array
    constants: Mapping[str, float]
    means: Means
    steps: StepSchedule
    mse_w: Array
    mse_v: Array

    @property
    def given(self) -> dict[str, Array]:
        """ρ_t down and σ_k across."""
        return {"mse_w": self.mse_w[:, None], "mse_v": self.mse_v[None, :]}


def sigma(constants: Mapping[str, float], steps: StepSchedule, k: int) -> Array:
    """σ_k for every w of the ball."""
    size = (constants["L_E"] / (1 - constants["q"])) ** 2
    return mean_square_distance(
        steps, k, q=constants["q"], m_1=constants["m_1"], V_star=constants["m_1"] * size, mse_0=size
    )


def schedules(constants: Mapping[str, float]) -> Iterator[StepSchedule]:
    """The largest steps of every theorem, full steps, and steps of both kinds."""
    q, L_Phi_hat = constants["q"], constants["L_Phi_hat"]
    beta = 2 / ((1 - q) * (1 + q))
    up = 1 + 1e-12
    yield StepSchedule.constant(1.0)
    yield StepSchedule.constant(1 / (1 + constants["sigma_2"]) / up)
    yield StepSchedule.decreasing(beta, beta * (1 + constants["sigma_2"]) * up)
    yield StepSchedule.decreasing(beta, beta * (1 + 2 * (L_Phi_hat**2 + q**2) / (1 - q) ** 2) * up)
    if "alpha" in constants:
        growth = 1 + constants["sigma_2_grad"]
        yield StepSchedule.constant(1 / growth / up)
        yield StepSchedule.decreasing(beta, beta * growth * up)
    yield advise_recursive(q, constants["m_1"], constants["V_star"], constants["mse_0"], T)


@cache
def affine_runs(seed: int) -> tuple[RandomRun, ...]:
    """With exact ρ_t, and with that of the recursion; σ_k exact where v(w) is the same everywhere."""
    instance = affine(seed)
    constants, found = instance.constants, []
    for steps in schedules(constants):
        eta = [steps.at(i) for i in range(T)]
        means = instance.means(eta, eta)
        rho = mean_square_distance(steps, T, **{x: constants[x] for x in ("q", "m_1", "V_star", "mse_0")})
        above = sigma(constants, steps, T)
        exact_v = above if instance.H.any() else means.mse_v[0]
        for mse_w, mse_v in ((means.mse_w, exact_v), (rho, above)):
            mse_w, mse_v = np.maximum(mse_w, 0), np.maximum(mse_v, 0)  # 0 up to rounding
            found.append(RandomRun(instance.name, instance.hypergradient, constants, means, steps, mse_w, mse_v))
    return tuple(found)


LAM = 0.5


@cache
def curved(seed: int) -> RandomRun:
    """Φ̂_j = a_j tanh w + b_j λw + c_j and E = ½(w−1)² + λ sin w at t = k = 3, so that no constant is 0."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(-0.4, 0.5, 2), rng.uniform(-0.8, 0.8, 2), rng.normal(size=2)
    problem = ScalarSum(
        lambda j, w: a[j] * np.tanh(w) + b[j] * LAM * w + c[j],
        lambda j, w: a[j] / np.cosh(w) ** 2 + b[j] * LAM,
        lambda j, w: b[j] * w,
        lambda w: w - 1 + LAM * np.cos(w),
        np.sin,
        2,
    )
    w_star = 0.0
    for _ in range(2000):
        w_star = sum(problem.phi(j, w_star) for j in (0, 1)) / 2

    def v_of(w: float) -> float:
        return problem.grad_w(w) / (1 - sum(problem.d1phi(j, w) for j in (0, 1)) / 2)

    hypergradient = np.sin(w_star) + b.mean() * w_star * v_of(w_star)
    w_0, q = float(rng.normal()), abs(a.mean()) + abs(b.mean() * LAM)
    steps = (StepSchedule.constant(1.0), StepSchedule.constant(0.5), StepSchedule.decreasing(2.0, 2.5))[seed % 3]
    eta = [steps.at(i) for i in range(3)]
    means = problem.means(w_0, w_star, v_of, hypergradient, eta, eta)
    radius = max(abs(w - w_star) for i in range(4) for w in problem.paths(w_0, eta[:i]))
    far = abs(w_star) + radius
    constants = {
        "q": q, "nu_1": abs(a.mean()) * 4 / 27**0.5, "nu_2": abs(b.mean()), "eta_1": 1 + LAM, "eta_2": 1.0,
        "L_E": abs(w_star - 1) + radius + LAM, "L_Phi_star": abs(b.mean() * w_star),
        "m_1": (a.std() + LAM * b.std()) ** 2, "m_2": b.var() * far**2, "mse_0": (w_0 - w_star) ** 2,
        "V_star": np.var([problem.phi(j, w_star) for j in (0, 1)]),
    }  # fmt: skip
    rho = mean_square_distance(steps, 3, **{x: constants[x] for x in ("q", "m_1", "V_star", "mse_0")})
    mse_w, mse_v = rho[-1:] if seed % 2 else means.mse_w[None], sigma(constants, steps, 3)[-1:]
    shaped = Means(*(np.asarray(x).reshape(1, 1) for x in (means.bias, means.mse, means.variance_given_w,
                   means.variance_of_mean)), means.mse_w[None], means.mse_v[None])  # fmt: skip
    return RandomRun(f"curved {seed}", np.atleast_1d(hypergradient), constants, shaped, steps, mse_w, mse_v)


def own_steps(name: str, run: RandomRun) -> dict[str, float] | None:
    """The steps as this bound takes them; None where it is not about such steps."""
    constant, steps = name.endswith(("constant", "recursive", "convex")), run.steps
    if constant and steps.switch is None:
        return {"eta": steps.eta}
    return {"beta": steps.beta, "gamma": steps.gamma} if steps.switch == 0 and not constant else None


def applies(name: str, run: RandomRun, own: Mapping[str, float]) -> bool:
    """Whether the constants are those of the theorem and its conditions hold."""
    bound = bounds[name]
    if set(bound.symbols) - set(run.constants) - set(own) - {"t", "k"}:
        return False
    call = bound.call(run.constants, 0, 0, own)
    return all(call.satisfied(i).all() for i in range(len(bound.conditions)))

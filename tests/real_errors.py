"""Errors of real runs on random instances beside the bounds on them, for every theorem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import runs
from instances import descent, drifting
from random_runs import ANY, FAMILIES, QUADRATIC, SYMMETRIC, VALUE, Comparison, T, k, observed, path, t
from runs import Array, Instance, norm, spectral
from stochastic_instances import T as T_RANDOM
from stochastic_instances import affine_noise, affine_runs, applies, curved, own_steps

from boundcheck import Bound, Constants, bounds
from boundcheck.theory import step_sizes
from boundcheck.theory.step_sizes import Momentum


def itd(name: str, seed: int, *, families: tuple[str, ...] = ANY, from_0: bool = True) -> Iterator[Comparison]:
    """ITD from 0 with the paper's constants, or from anywhere with local ones."""
    for family in families:
        instance = FAMILIES[family](seed)
        measured = runs.observe_itd(instance, path(family, seed, from_0))
        constants = instance.paper() if from_0 else instance.local()
        yield Comparison(instance, measured[bounds[name].bounds.name], bounds[name].evaluate(constants, t[:, 0]).values)


def itd_path(name: str, seed: int) -> Iterator[Comparison]:
    for family in ANY:
        instance, constants = FAMILIES[family](seed), FAMILIES[family](seed).local()
        measured = runs.observe_itd(instance, path(family, seed, False), constants["q"])
        given = {x: measured[x] for x in ("r_t", "g_t", "path_t")}
        yield Comparison(instance, measured["error"], bounds[name].evaluate(constants, t[:, 0], **given).values)


def itd_truncated(name: str, seed: int) -> Iterator[Comparison]:
    for family in ANY:
        instance, w = FAMILIES[family](seed), path(family, seed, True).w
        error = runs.gradient_error(instance, w, runs.truncated(instance, w))
        if name == "itd-one-step":
            yield Comparison(instance, error[1:, 1], bounds[name].evaluate(instance.paper(), t[1:, 0]).values)
        else:
            K = np.minimum(k, t)
            values = bounds[name].evaluate(instance.paper(), t, K=K).values
            yield Comparison(instance, np.take_along_axis(error, K, 1), values)


def aid(
    name: str,
    seed: int,
    *,
    families: tuple[str, ...] = ANY,
    rates: Mapping[str, str] = {"fixed-point": "fixed-point"},
    from_0: bool = True,
    given: tuple[str, ...] = (),
) -> Iterator[Comparison]:
    """AID with each solver of `rates`, whose rate is put for σ; `given` are observables handed to the bound."""
    bound = bounds[name]
    for family in families:
        instance = FAMILIES[family](seed)
        constants = instance.paper() if from_0 else instance.local()
        for rate, solver in rates.items():
            if family not in SYMMETRIC and solver == "cg":
                continue
            measured = observed(family, seed, from_0, solver)
            named = {"sigma": rate, "rho": "contraction"} if name in TAKE_RATES else {}
            values = spoken(bound, constants, {**named, **{x: measured[x] for x in given}})
            yield Comparison(instance, measured[bound.bounds.name], np.broadcast_to(values, (T + 1, T + 1)))


def spoken(bound: Bound, constants: Mapping[str, float], given: Mapping[str, object]) -> Array:
    """The bound at every t and k; infinite where a condition of a theorem about the iterate fails."""
    if bound.name not in ABOUT_THE_ITERATE:
        return bound.evaluate(constants, t, k, **given).values
    call = bound.call(constants, t, k, given)
    fits = np.all([np.broadcast_to(call.satisfied(i), (T + 1, T + 1)) for i in range(len(bound.conditions))], axis=0)
    with np.errstate(invalid="ignore"):
        return np.where(fits, call.bound.evaluate(constants, t, k, **masked(given, fits)).values, np.inf)


def masked(given: Mapping[str, object], fits: Array) -> dict[str, object]:
    """What was observed, and 0 where the theorem does not speak."""
    return {name: np.where(fits, x, 0.0) if isinstance(x, np.ndarray) else x for name, x in given.items()}


ABOUT_THE_ITERATE = ("aid-newton", "aid-certificate", "aid-corrected")


def ablin(name: str, seed: int) -> Iterator[Comparison]:
    for family in VALUE:
        instance, run = FAMILIES[family](seed), path(family, seed, False)
        measured = runs.observe_itd(instance, run)
        analytic = norm(instance.grad_lam(run.w) - instance.hypergradient)
        error = analytic if name == "ablin-analytic" else measured["error"]
        for given in ({}, {x: measured[x] for x in ("r_t", "dw")}):
            yield Comparison(instance, error, bounds[name].evaluate(instance.local(), t[:, 0], **given).values)


def ji(name: str, seed: int) -> Iterator[Comparison]:
    for log_cosh, value in product((False, True), repeat=2):
        constants = descent(seed, log_cosh, value, "short").local()
        # the L of Ji et al. bounds every second derivative of ℓ and E; α = 1/L
        L = max(constants[x] for x in ("L", "eta_1", "eta_2", "L_ell"))
        instance = descent(seed, log_cosh, value, 1 / L)
        error = runs.observe_itd(instance, runs.iterate(instance, instance.w_0, T))["error"]
        values = bounds[name].evaluate(instance.local() | {"L": L, "alpha": 1 / L}, t[1:, 0]).values
        yield Comparison(instance, error[1:], values)


@dataclass(frozen=True)
class MomentumRun:
    """A momentum method tuned to an interval [μ, L] that may be wider than the spectrum, and its constants."""

    method: Momentum
    instance: Instance
    path: runs.Path
    constants: dict[str, float]


@cache
def momentum_runs(name: str, seed: int) -> tuple[MomentumRun, ...]:
    found = []
    for value, (wider_below, wider_above) in product((False, True), ((1, 1), (9, 1), (1, 9))):
        instance = descent(seed, value=value, step="best")
        mu, L = instance.local()["mu"] / wider_below, instance.local()["L"] * wider_above
        method = {"heavy-ball": step_sizes.heavy_ball, "nesterov": step_sizes.nesterov}[name](mu, L)
        constants = instance.local(peak=float(method.factor(t).max())) | {"mu": mu, "L": L, "kappa": L / mu}
        found.append(MomentumRun(method, instance, runs.momentum(instance, method, T), constants))
    return tuple(found)


def momentum(name: str, seed: int) -> Iterator[Comparison]:
    for run in momentum_runs(name, seed):
        constants = run.constants | {"alpha": run.method.alpha}
        error = runs.observe_itd(run.instance, run.path)["error"]
        yield Comparison(run.instance, error, bounds[name].evaluate(constants, t[:, 0]).values)


def weighted(name: str, seed: int) -> Iterator[Comparison]:
    for run in (*momentum_runs("heavy-ball", seed), *momentum_runs("nesterov", seed)):
        if name == "itd-weighted":
            error = runs.observe_itd(run.instance, run.path)["error"][:, None]
        else:
            error = runs.augmented_aid(run.instance, run.method, run.path.w, T)
        for best_at in (3, 20):
            constants = step_sizes.lyapunov(run.method, t=best_at).constants(Constants.given(**run.constants))
            yield Comparison(run.instance, error, bounds[name].evaluate(constants, t, k).values)


def aid_local(name: str, seed: int) -> Iterator[Comparison]:
    """As measured, and a priori with every rate; with heavy ball and Nesterov below on a quadratic."""
    yield from aid(name, seed, from_0=False, rates=RATES)
    yield from aid(name, seed, from_0=False, rates=RATES, given=("r_t", "v_t", "solve_error"))
    for below in ("heavy-ball", "nesterov"):
        for run in momentum_runs(below, seed):
            errors = {x: runs.observe(run.instance, run.path.w, T, x)["error"] for x in set(RATES.values())}
            for rate, solver in RATES.items():
                values = bounds[name].evaluate(run.constants, t, k, rho=below, sigma=rate).values
                yield Comparison(run.instance, errors[solver], values)


def aid_fp_local(name: str, seed: int) -> Iterator[Comparison]:
    yield from aid(name, seed, from_0=False)
    yield from aid(name, seed, from_0=False, given=("r_t",))
    for run in momentum_runs("heavy-ball", seed):
        error = runs.observe(run.instance, run.path.w, T, "fixed-point")["error"]
        yield Comparison(run.instance, error, bounds[name].evaluate(run.constants, t, k, rho="heavy-ball").values)


def itd_spectral(name: str, seed: int) -> Iterator[Comparison]:
    """With the terms as they are; that the spectrum foretells them: numerics/curves/test_spectral_terms.py."""
    for family in QUADRATIC:
        instance = FAMILIES[family](seed)
        measured = runs.observe_itd(instance, path(family, seed, False))
        given = {x: measured[x] for x in ("dE_2", "wT_dE_1", "dwT_g")}
        yield Comparison(instance, measured["error"], bounds[name].evaluate({}, t[:, 0], **given).values)


def enclosure(name: str, seed: int) -> Iterator[Comparison]:
    """Against a reference that is off by ε_g, from above and, the same inequality turned, from below."""
    for family in ANY:
        instance, run = FAMILIES[family](seed), path(family, seed, False)
        off = np.random.default_rng(seed).normal(size=instance.lam.size) * 10.0 ** -(seed % 5)
        error, gap = (runs.gradient_error(instance, run.w, run.u, x) for x in (0.0, off))
        for seen, other in ((error, gap), (gap, error)):
            yield Comparison(instance, seen, bounds[name].evaluate({"eps_g": float(norm(off))}, gap_t=other).values)


def corrected(name: str, seed: int) -> Iterator[Comparison]:
    """AID at (t, k) from AID at (t + 3, k + 3): from above, and the same inequality turned, from below."""
    later = 3
    for family in ANY:
        instance, w = FAMILIES[family](seed), path(family, seed, False).w
        for solver in ("fixed-point", "cgn", *(("cg",) if family in SYMMETRIC else ())):
            g = runs.aid_vectors(instance, w, T, solver)
            gap = np.zeros(g.shape[:2])
            gap[:-later, :-later] = norm(g[:-later, :-later] - g[later:, later:])
            seen = observed(family, seed, False, solver)
            given = {
                x: np.roll(seen[x] + 0 * t + 0 * k, (-later, -later), (0, 1)) for x in (*RESIDUALS[:2], "W_t", "v_k")
            }
            upper = spoken(bounds[name], instance.local(), {**given, "gap_t": gap})[:-later, :-later]
            inside = (slice(None, -later), slice(None, -later))
            yield Comparison(instance, seen["error"][inside], upper)
            yield Comparison(instance, gap[inside], upper - gap[inside] + seen["error"][inside])


def shrinking(name: str, seed: int) -> Iterator[Comparison]:
    """With constants of smaller balls, wide apart and close together, and with one ball for all radii."""
    solver = {"itd-shrinking": "", "aid-fp-shrinking": "fixed-point", "aid-cg-shrinking": "cg"}[name]
    for family in SYMMETRIC if solver == "cg" else ANY:
        instance = FAMILIES[family](seed)
        if solver:
            error = observed(family, seed, False, solver)["error"]
        else:
            error = runs.observe_itd(instance, path(family, seed, False))["error"][:, None] + 0 * k
        for constants in (instance.shrinking(0.3, 3), instance.shrinking(0.9, 30), instance.local()):
            values = bounds[name].evaluate(constants, t, k).values
            yield Comparison(instance, error, np.broadcast_to(values, error.shape))


def with_directions(instance: Instance) -> dict[str, float]:
    """The local constants of a `bilinear` problem with its χ and with an ω of Frobenius norms.

    There w ↦ ∇₂E + ∂₂Φᵀv* + w'ᵀ(∇₁E + ∂₁Φᵀv*), ∂₂Φ + ∂₁Φw' and ∇₁E are affine, so that unit steps give their
    derivatives.
    """
    w, w_prime, Y = instance.w_star, instance.w_prime, instance.d1phi(instance.w_star)
    v = np.linalg.solve(np.eye(w.size) - Y.T, instance.grad_w(w))

    def G(x: Array) -> Array:
        of_w = instance.grad_w(x) + instance.d1phi(x).T @ v
        return instance.grad_lam(x) + instance.d2phi(x).T @ v + w_prime.T @ of_w

    unit = w + np.eye(w.size)
    chi = spectral(np.stack([G(x) - G(w) for x in unit]))
    left, right = (np.stack([f(x) - f(w) for x in unit]) for f in (instance.d2phi, instance.grad_w))
    size = np.linalg.norm(left) * spectral(right) * spectral(np.linalg.inv(np.eye(w.size) - Y))
    return instance.local() | {"chi": float(chi) * (1 + 1e-12), "omega": float(size) * (1 + 1e-12)}


def directional(name: str, seed: int) -> Iterator[Comparison]:
    """With the constants made of Lipschitz constants, and with those of the directions v* and w' themselves."""
    solver = {"aid-fp-directional": "fixed-point", "aid-cg-directional": "cg"}[name]
    for family in SYMMETRIC if solver == "cg" else ANY:
        instance, error = FAMILIES[family](seed), observed(family, seed, False, solver)["error"]
        for constants in (instance.shrinking(0.3, 3), instance.local()):
            yield Comparison(instance, error, bounds[name].evaluate(constants, t, k).values)
        if family in ("bilinear", "quadratic") and not (family == "quadratic" and instance.fixed["grad_alpha"]):
            yield Comparison(instance, error, bounds[name].evaluate(with_directions(instance), t, k).values)


def warm_start(name: str, seed: int) -> Iterator[Comparison]:
    """r_t itself, from any start, with the residual there, and with r_0."""
    for family in ANY:
        instance, run = FAMILIES[family](seed), path(family, seed, False)
        eps_0 = float(norm(run.w[0] - run.w[1]))
        for known in ({"q": instance.local()["q"], "eps_0": eps_0}, instance.local()):
            yield Comparison(instance, norm(run.w - instance.w_star), bounds[name].evaluate(known, t[:, 0]).values)


def warm_drift(name: str, seed: int) -> Iterator[Comparison]:
    """From a start next to the solution at another λ, up to 3 away, with the supremum of ‖w'‖ on the way."""
    for i in range(8):
        drift = drifting(8 * seed + i)
        instance, known = drift.instance, {x: getattr(drift, x) for x in ("r_prev", "lam_step", "W_path")}
        w = runs.iterate(instance, instance.w_0, T).w
        values = bounds[name].evaluate(instance.local(), t[:, 0], **known).values
        yield Comparison(instance, norm(w - instance.w_star), values)


def of_means(name: str, seed: int) -> Iterator[Comparison]:
    """Means of ∇̂f over all draws, with exact ρ_t and σ_k and with bounds on them."""
    for run in (*affine_runs(seed), *(curved(3 * seed + i) for i in range(3))):
        values = bounds[name].evaluate(run.constants, **run.given).values
        yield Comparison(run, getattr(run.means, bounds[name].bounds.name), values)


def of_noise(name: str, seed: int) -> Iterator[Comparison]:
    """V[Φ̂(w)] at many w."""
    at = affine_noise(seed)
    yield Comparison(at, at.noise_w, bounds[name].evaluate(at.constants, eps_w=at.eps_w).values)


def of_steps(name: str, seed: int) -> Iterator[Comparison]:
    """E‖w_t−w*‖², or the mean square error of the whole algorithm, where the steps are those of the theorem."""
    for run in affine_runs(seed):
        own = own_steps(name, run)
        if own is None or not applies(name, run, own):
            continue
        if bounds[name].bounds.name == "mse":
            values = bounds[name].evaluate(run.constants, t[: T_RANDOM + 1], k[:, : T_RANDOM + 1], **own).values
            yield Comparison(run, run.means.mse, values)
        else:
            values = bounds[name].evaluate(run.constants, t[: T_RANDOM + 1, 0], **own).values
            yield Comparison(run, run.means.mse_w, values)


RATES = {"fixed-point": "fixed-point", "cgn": "cgn", **dict.fromkeys(("cg", "cg-chebyshev", "cg-finite"), "cg")}
TAKE_RATES = ("aid", "aid-contraction", "aid-local")
EXACT_SOLVE = {"exact-solve": "exact"}
AT_ITERATE = ("eps_w", "newton_t", "A_t_inv", "W_t", "v_t", "solve_error")
AID_TERMS = ("dE_2", "dZT_v", "ZT_dv", "wT_dE_1", "duT_g")
RESIDUALS = ("eps_w", "eps_v", "Z_t", "g_t")

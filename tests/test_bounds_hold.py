"""Every bound of the catalogue against the real error, on random instances and every t, k up to 30."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import runs
from instances import bilinear, descent, drifting, kinked, saturating, tight
from runs import Array, Instance, norm, spectral
from stochastic_instances import RandomRun, affine_runs, applies, curved, own_steps
from stochastic_instances import T as T_RANDOM

from boundcheck import Bound, Constants, bounds
from boundcheck.theory import step_sizes
from boundcheck.theory.step_sizes import Momentum

T = 30
SEEDS = range(16)
t, k = np.arange(T + 1)[:, None], np.arange(T + 1)[None, :]
FAMILIES: Mapping[str, Callable[[int], Instance]] = {
    "bilinear": bilinear,
    "saturating": saturating,
    "quadratic": descent,
    "log-cosh": partial(descent, log_cosh=True),
    "kinked": kinked,
    "value": partial(descent, value=True),
    "value log-cosh": partial(descent, log_cosh=True, value=True),
    "value kinked": partial(kinked, value=True),
}
ANY, SYMMETRIC, VALUE = tuple(FAMILIES), tuple(FAMILIES)[2:], tuple(FAMILIES)[5:]
NU_1_IS_0 = ("bilinear", "quadratic", "value")


@dataclass(frozen=True)
class Comparison:
    """An error and what is claimed to bound it, over the same grid of t or (t, k)."""

    instance: Instance | RandomRun
    error: Array
    bound: Array

    @property
    def excess(self) -> float:
        """How far the error exceeds the bound beyond rounding.

        Errors are differences of vectors no larger than `scale`, from some 10² operations with condition numbers up to
        10³ at 2⁻⁵³: 1e-12 of the scale is a hundred times what rounding can do and far below any real violation.
        """
        scale = float(norm(self.instance.hypergradient)) + float(np.nanmax(self.error))
        return float(np.nanmax(self.error - self.bound * (1 + 1e-12))) - 1e-12 * (1 + scale)


@cache
def path(family: str, seed: int, from_0: bool) -> runs.Path:
    instance = FAMILIES[family](seed)
    return runs.iterate(instance, instance.w_0 * (not from_0), T)


@cache
def observed(family: str, seed: int, from_0: bool, solver: str) -> dict[str, Array]:
    return runs.observe(FAMILIES[family](seed), path(family, seed, from_0).w, T, solver)


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
QUADRATIC = ("quadratic", "value")
AID_TERMS = ("dE_2", "dZT_v", "ZT_dv", "wT_dE_1", "duT_g")
RESIDUALS = ("eps_w", "eps_v", "Z_t", "g_t")
CASES: Mapping[str, Callable[[str, int], Iterator[Comparison]]] = {
    "ablin-analytic": ablin,
    "ablin-automatic": ablin,
    "aid": partial(aid, rates=RATES | EXACT_SOLVE),
    "aid-cg": partial(aid, families=SYMMETRIC, rates={"cg": "cg"}),
    "aid-cg-chebyshev": partial(aid, families=SYMMETRIC, rates={"cg": "cg"}),
    "aid-certificate": partial(aid, rates=RATES | EXACT_SOLVE, from_0=False, given=(*RESIDUALS[:2], "W_t", "v_k")),
    "aid-cg-directional": directional,
    "aid-cg-energy": partial(aid, families=SYMMETRIC, rates={"cg": "cg"}),
    "aid-cg-shrinking": shrinking,
    "aid-cg-local": partial(aid, families=SYMMETRIC, rates={"cg": "cg"}, from_0=False),
    "aid-cgn": partial(aid, rates={"cgn": "cgn"}),
    "aid-corrected": corrected,
    "aid-contraction": partial(aid, rates=RATES | EXACT_SOLVE),
    "aid-fp": aid,
    "aid-fp-derivative": aid,
    "aid-fp-directional": directional,
    "aid-fp-gd": partial(aid, families=SYMMETRIC),
    "aid-fp-local": aid_fp_local,
    "aid-fp-shrinking": shrinking,
    "aid-fp-weighted": weighted,
    "aid-local": aid_local,
    "aid-fp-path": partial(aid, from_0=False, given=("r_t", "g_t")),
    "aid-path": partial(aid, rates=RATES | EXACT_SOLVE, from_0=False, given=("r_t", "v_t", "solve_error")),
    "aid-posteriori": partial(aid, rates=RATES | EXACT_SOLVE, from_0=False, given=RESIDUALS),
    "aid-spectral": partial(
        aid, families=QUADRATIC, rates={"fixed-point": "fixed-point", "cg": "cg"}, from_0=False, given=AID_TERMS
    ),
    "aid-newton": partial(aid, rates=RATES | EXACT_SOLVE, from_0=False, given=AT_ITERATE),
    "enclosure": enclosure,
    "ghadimi-wang": partial(aid, rates=EXACT_SOLVE),
    "heavy-ball": momentum,
    "itd": itd,
    "itd-derivative": itd,
    "itd-gd": partial(itd, families=SYMMETRIC),
    "itd-local": partial(itd, from_0=False),
    "itd-one-step": itd_truncated,
    "itd-path": itd_path,
    "itd-quadratic": partial(itd, families=NU_1_IS_0),
    "itd-recursive": partial(itd, from_0=False),
    "itd-shrinking": shrinking,
    "itd-spectral": itd_spectral,
    "itd-truncated": itd_truncated,
    "itd-weighted": weighted,
    "ji-itd": ji,
    "nesterov": momentum,
    "sgd-constant": of_steps,
    "sgd-convex": of_steps,
    "sgd-decreasing": of_steps,
    "sid": of_steps,
    "sid-bias": of_means,
    "sid-mse": of_means,
    "sid-orthogonal": of_means,
    "sid-variance-given-w": of_means,
    "sid-variance-of-mean": of_means,
    "stochastic-constant": of_steps,
    "stochastic-decreasing": of_steps,
    "stochastic-recursive": of_steps,
    "warm-drift": warm_drift,
    "warm-start": warm_start,
}


def test_every_bound_of_the_catalogue_is_tried() -> None:
    assert sorted(CASES) == sorted(bounds), "a new bound needs a case: real runs whose error it bounds"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_the_error_is_at_most_the_bound(name: str, seed: int) -> None:
    for comparison in CASES[name](name, seed):
        assert comparison.excess <= 0, comparison.instance.name


def test_the_newton_bound_speaks_often_enough() -> None:
    """At w* itself it always does; here from some t on, for most families."""
    found = [np.isfinite(c.bound).mean() for seed in SEEDS for c in CASES["aid-newton"]("aid-newton", seed)]
    assert np.mean([share > 0.3 for share in found]) > 0.8


@pytest.mark.parametrize("q", [0.8, 0.9, 0.99])
def test_the_local_bounds_are_attained(q: float) -> None:
    instance = tight(q)
    path = runs.iterate(instance, instance.w_0, T)
    errors = {
        "itd-local": runs.observe_itd(instance, path)["error"][:, None] + 0 * k,
        "aid-fp-local": runs.observe(instance, path.w, T, "fixed-point")["error"],
    }
    for name, error in errors.items():
        values = np.broadcast_to(bounds[name].evaluate(instance.local(), t, k).values, error.shape)
        np.testing.assert_allclose(error, values, rtol=1e-12)


@pytest.mark.parametrize("kappa", [10.0, 1e3, 1e5])
@pytest.mark.parametrize("name", ["aid-cg", "aid-cg-chebyshev", "aid-cg-energy"])
def test_the_linear_solve_alone_on_ill_conditioned_systems(name: str, kappa: float) -> None:
    """w* = w_0 = 0, so D = 0 leaves the term in k; eigenvalues at Chebyshev points, geometric, in two clusters."""
    rng, d = np.random.default_rng(0), 14
    x = {"chebyshev": (1 + np.cos(np.pi * np.arange(d) / (d - 1))) / 2, "clusters": np.repeat([0.0, 1.0], d // 2)}
    spectra = [1 / kappa + (1 - 1 / kappa) * points for points in x.values()] + [np.geomspace(1 / kappa, 1, d)]
    basis = np.linalg.qr(rng.normal(size=(30, d, d)))[0]
    for spectrum in spectra:
        A, b, Z = basis * spectrum @ np.swapaxes(basis, 1, 2), rng.normal(size=(30, d)), rng.normal(size=(30, d, 2))
        b[::2] /= np.sqrt(abs(b[::2]))  # anything but Gaussian
        away = runs.cg(A, b, T) - runs.exact(A, b, T)
        for error, b_i, Z_i in zip(norm(np.einsum("ian,ika->ikn", Z, away)), b, Z, strict=True):
            constants = {"q": 1 - 1 / kappa, "D": 0.0, "L_E": norm(b_i), "L_Phi": spectral(Z_i), "kappa": kappa}
            constants |= dict.fromkeys(("nu_1", "nu_2", "eta_1", "eta_2"), 0.0)
            values = bounds[name].evaluate(constants, 0, k[0]).values
            assert (error <= values + 1e-13 * kappa * constants["L_E"] * constants["L_Phi"]).all()


METHODS = [make(1.0, kappa) for make in (step_sizes.heavy_ball, step_sizes.nesterov) for kappa in (1.3, 4, 50, 2000)]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.name}-{m.kappa:g}")
def test_momentum_polynomials_stay_below_factor_and_slope(method: Momentum) -> None:
    """As functions of h they attain them on [μ, L]; as functions of a matrix, along any ‖E‖ = 1, they stay below."""
    h = (1 + (method.kappa - 1) * (1 - np.cos(np.linspace(0, np.pi, 2001))) / 2)[:, None, None]
    P, dP = (abs(x).max(axis=(1, 2, 3)) for x in runs.polynomials(method, h, np.ones_like(h), T))
    np.testing.assert_allclose(P, method.factor(t[:, 0]), rtol=1e-9)
    np.testing.assert_allclose(dP, method.slope(t[:, 0]), rtol=1e-9)
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(300, 5, 5)))[0]
    spectrum = 1 + (method.kappa - 1) * rng.beta(0.3, 0.3, (300, 5))  # crowded at the ends
    E = basis * rng.choice([-1.0, 1.0], (300, 1, 5)) @ np.swapaxes(basis, 1, 2)  # the extreme points of ‖E‖ ≤ 1
    P, dP = runs.polynomials(method, np.einsum("ia,ab->iab", spectrum, np.eye(5)), E, T)
    assert (spectral(P) <= method.factor(t) * (1 + 1e-9)).all()
    assert (spectral(dP) <= method.slope(t) * (1 + 1e-9)).all()


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.name}-{m.kappa:g}")
def test_the_lyapunov_norm_holds_on_the_whole_interval(method: Momentum) -> None:
    for lyapunov in (step_sizes.lyapunov(method, t=10), step_sizes.lyapunov(method, theta=0.5)):
        for h in 1 + (method.kappa - 1) * np.linspace(0, 1, 101):
            M = method.matrix(h)
            power = np.array([np.linalg.matrix_power(M, i) for i in range(T + 1)])
            assert (spectral(power) <= lyapunov.factor(t[:, 0]) * (1 + 1e-9)).all()
            system = np.eye(4) - np.kron(M.T, M.T) / lyapunov.q_P**2
            P = np.linalg.solve(system, np.eye(2).ravel()).reshape(2, 2)
            assert spectral(P) <= lyapunov.stretch * (1 + 1e-6)  # a 4×4 system of condition 1e6 or so

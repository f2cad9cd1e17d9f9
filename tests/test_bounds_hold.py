"""Every bound of the catalogue against the real error, on random instances and every t, k up to 30."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import dense_solvers
import numpy as np
import pytest
import runs
from instances import tight
from random_runs import NU_1_IS_0, QUADRATIC, SEEDS, SYMMETRIC, Comparison, T, k, t
from real_errors import (
    AID_TERMS,
    AT_ITERATE,
    EXACT_SOLVE,
    RATES,
    RESIDUALS,
    ablin,
    aid,
    aid_fp_local,
    aid_local,
    corrected,
    directional,
    enclosure,
    itd,
    itd_path,
    itd_spectral,
    itd_truncated,
    ji,
    momentum,
    of_means,
    of_noise,
    of_steps,
    shrinking,
    warm_drift,
    warm_start,
    weighted,
)
from runs import norm, spectral

from boundcheck import bounds

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
    "stochastic-noise": of_noise,
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
        away = dense_solvers.cg(A, b, T) - dense_solvers.exact(A, b, T)
        for error, b_i, Z_i in zip(norm(np.einsum("ian,ika->ikn", Z, away)), b, Z, strict=True):
            constants = {"q": 1 - 1 / kappa, "D": 0.0, "L_E": norm(b_i), "L_Phi": spectral(Z_i), "kappa": kappa}
            constants |= dict.fromkeys(("nu_1", "nu_2", "eta_1", "eta_2"), 0.0)
            values = bounds[name].evaluate(constants, 0, k[0]).values
            assert (error <= values + 1e-13 * kappa * constants["L_E"] * constants["L_Phi"]).all()

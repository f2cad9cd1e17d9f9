"""`check` on the paper's problems: every bound holds, the proof adds up, and what is attained is attained."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import boundcheck as bc
from boundcheck import Report, Verdict
from boundcheck.report.method_curve import BoundCurve, Curve

T = 60
PAPER = ("lr", "krr", "br", "hr")
OWN = {"lr": "gradient-descent", "krr": "heavy-ball", "br": "heavy-ball", "hr": "heavy-ball"}
SIZES: dict[str, dict[str, int]] = {  # the sizes of the paper take minutes
    "lr": {"size": 50, "features": 30},
    "hr": {"size": 30, "features": 20, "represented": 25},
}
CASES = [(name, dynamics) for name in PAPER for dynamics in dict.fromkeys(("gradient-descent", OWN[name]))]


@cache
def checked(name: str, dynamics: str) -> Report:
    problem = bc.load_problem(name, dynamics=dynamics, **SIZES.get(name, {}))
    return bc.check(problem, ["itd", "aid-fp", "aid-cg"], t=T)


def applied(report: Report) -> list[tuple[Curve, BoundCurve]]:
    return [(curve, bound) for curve in report.curves.values() for bound in curve.applicable.values()]


@pytest.mark.parametrize(("name", "dynamics"), CASES)
def test_every_bound_that_applies_holds(name: str, dynamics: str) -> None:
    report = checked(name, dynamics)
    result = {bound.name: bound.verdict for _, bound in applied(report)}
    assert set(result.values()) == {Verdict.HOLDS}
    assert report.verdict is Verdict.HOLDS
    plain = {
        "itd",
        "itd-local",
        "itd-recursive",
        "itd-gd",
        "aid",
        "aid-contraction",
        "aid-fp",
        "aid-fp-local",
        "aid-cg",
    }
    local = {"aid-local", "aid-fp-local", "aid-posteriori"}
    if dynamics == "gradient-descent":
        assert plain | local <= set(result)
    else:
        assert local | {"heavy-ball", "itd-weighted"} <= set(result)
        assert not {"itd", "itd-local"} & set(result)


@pytest.mark.parametrize(("name", "dynamics"), CASES)
def test_the_slacks_multiply_to_bound_over_error(name: str, dynamics: str) -> None:
    traced = 0
    for curve, bound in applied(checked(name, dynamics)):
        if bound.trace is None:
            continue
        traced += 1
        at = bound.trace.t - 1
        np.testing.assert_allclose(bound.trace.values[0], curve.errors[0, at], rtol=1e-12)
        spoken = np.isfinite(bound.values[0, at])
        np.testing.assert_allclose(bound.trace.values[-1, spoken], bound.values[0, at[spoken]], rtol=1e-9)
        ratio = bound.values[0, at[spoken]] / curve.errors[0, at[spoken]]
        np.testing.assert_allclose(bound.trace.slacks[:, spoken].prod(axis=0), ratio, rtol=1e-9)
        assert not bound.trace.broken[:, spoken].any(), (bound.name, bound.trace.first_broken)
        shares = bound.trace.shares[:, spoken]
        np.testing.assert_allclose(shares.sum(axis=0)[np.isfinite(shares).all(axis=0)], 1)
    assert traced >= (7 if dynamics == "gradient-descent" else 5)


@pytest.mark.parametrize(("name", "dynamics"), CASES)
def test_the_best_certified_bound_is_told_at_every_t(name: str, dynamics: str) -> None:
    for curve in checked(name, dynamics).curves.values():
        least = np.min([np.where(np.isnan(b.values), np.inf, b.values) for b in curve.applicable.values()], axis=0)
        assert np.isfinite(curve.certified()).all()
        assert (curve.certified() == least).all()
        assert (curve.errors <= curve.certified() + 10 * curve.floor).all()


@pytest.mark.parametrize("name", PAPER)
def test_the_order_of_the_methods_is_measured(name: str) -> None:
    report = checked(name, "gradient-descent")
    for a, b, share in report.ordering:
        first, second = (report.curve(m).errors[0] for m in (a, b))
        seen = (first > report.curve(a).floor[0]) | (second > report.curve(b).floor[0])
        assert share == (first <= second)[seen].mean()
    assert [pair[:2] for pair in report.ordering] == [("itd", "aid-fp"), ("itd", "aid-cg"), ("aid-fp", "aid-cg")]


def test_the_local_bounds_are_attained_on_one_number() -> None:
    report = bc.check(bc.load_problem("scalar"), ["itd", "aid-fp", "aid-fp:5"], t=200)
    for method, bound in (("itd", "itd-local"), ("aid-fp", "aid-fp-local"), ("aid-fp:5", "aid-fp-local")):
        tightness = report.curve(method).bounds[bound].tightness
        curve = report.curve(method)
        seen = np.isfinite(tightness)
        assert seen[curve.floor <= 1e-6 * curve.errors].all()  # elsewhere rounding decides which is larger
        assert seen.mean() > 0.8
        tightness = tightness[seen]
        np.testing.assert_allclose(tightness, 1, atol=5e-4)
    assert report.verdict is Verdict.HOLDS


def test_predicted_and_measured_rates() -> None:
    """Φ = qw + λ and E = w: the error is q^t/(1 − q) for every method."""
    problem = bc.Problem.from_map(
        lambda w, lam: 0.8 * w + lam, lambda w, lam: w.sum(), torch.zeros(1).double(), torch.ones(1).double()
    )
    report = bc.check(problem, ["itd", "aid-fp"], t=100)
    for curve in report.curves.values():
        assert curve.rate is not None
        assert curve.rate.value == pytest.approx(0.8, rel=1e-6)
        assert (curve.rate.first, curve.rate.last) == (1, 100)
        own = curve.bounds[curve.method]
        assert own.rate_predicted == pytest.approx(0.8, rel=1e-6)
        for eps, t in curve.needs.items():
            expected = int(np.ceil(np.log(eps * 0.2) / np.log(0.8)))
            assert t == (expected if expected <= 100 else None)
            assert own.asks[eps] == expected  # attained


def test_several_lam_are_checked_one_by_one() -> None:
    problem, t = bc.load_problem("lr", size=12, features=4), 15
    report = bc.check(problem, ["itd", "aid-fp"], t=t, samples=3, seed=1)
    again = bc.check(problem, ["itd", "aid-fp"], t=t, samples=3, seed=1)
    curves = bc.error_curves(problem, ["itd", "aid-fp"], t=t, samples=3, seed=1)
    lams = problem.sample(3, 1)
    for i, lam in enumerate(lams):
        alone = bc.check(problem, ["itd", "aid-fp"], t=t, lam=lam)
        for method in ("itd", "aid-fp"):
            np.testing.assert_allclose(report.curve(method).errors[i], curves[method][i], rtol=1e-9)
            for name, bound in alone.curve(method).applicable.items():
                if bound.kind == "a priori":  # the others were observed at the first λ only
                    np.testing.assert_allclose(report.curve(method).bounds[name].values[i], bound.values[0], rtol=1e-6)
    assert (report.curve("itd").errors == again.curve("itd").errors).all()
    assert report.samples == 3

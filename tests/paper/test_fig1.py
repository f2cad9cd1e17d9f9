"""What the paper says of Figure 1, on the quick setting with two λ: rates, ordering, growth, floors, bounds."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock

from boundcheck.engine import conduct, workers
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.paper import load
from boundcheck.paper.fig1.experiment import PAPER, PROBLEMS, UNITS, problem_at
from boundcheck.paper.fig1.views import claims
from boundcheck.paper.fig1.views.figures import KINDS

WITH_MOMENTUM = ("krr", "br", "hr")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Any:
    experiment = load("fig1")
    settings = experiment.settings(True, 0, "cpu") | {"samples": 2}
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "fig1"  # one for all workers of pytest
    with FileLock(f"{folder}.lock"):  # the first one runs it, the others find it done
        return conduct.conduct(experiment, settings, folder, workers.Here()).outcome


@pytest.fixture(scope="module")
def data(outcome: Any) -> Any:
    return outcome.data


def mean(data: Any, name: str, method: str, precision: str = "float64") -> np.ndarray:
    result: np.ndarray = data[name]["methods"][method][precision]["mean"]
    return result


def test_every_method_converges_linearly_at_the_predicted_rate_or_faster(data: Any) -> None:
    result = claims.rates(data)
    assert {(name, method) for name, method, *_ in result} == {(name, method) for name in PROBLEMS for method in PAPER}
    for name, method, error, predicted in result:
        assert error <= predicted * claims.SLOWER, (name, method)
        assert error < 1


def test_the_rate_of_the_methods_with_momentum_is_that_of_heavy_ball(data: Any) -> None:
    """(√κ−1)/(√κ+1), up to the factor 1 + (1+s)t of heavy ball, a step of which is less than 1/t above 1."""
    for name in WITH_MOMENTUM:
        root = np.mean(data[name]["kappa"]) ** 0.5
        s = (root - 1) / (root + 1)
        error = mean(data, name, "fp-momentum")
        last = len(error) - 1
        first = last * 3 // 4
        assert (error[last] / error[first]) ** (1 / (last - first)) < s * (1 + 2 / first), name


def test_cg_is_best_then_fp_then_itd(data: Any) -> None:
    """As in the paper, at most t: with FP on the map of heavy ball; with FP on Φ not."""
    for name in PROBLEMS:
        assert all(share > 0.5 for share in claims.shares(data[name], "fp-momentum").values()), name
    for name in ("lr", "krr", "br"):
        assert claims.shares(data[name], "fp-momentum")["CG ≤ FP"] > 0.95
    assert claims.shares(data["br"], "aid-fp")["FP ≤ ITD"] < 0.1
    assert claims.shares(data["krr"], "aid-fp")["FP ≤ ITD"] < 0.5


def test_fp_and_itd_are_the_same_on_br(data: Any) -> None:
    """∂₁Φ, ∂₂Φ are constant there, so both are Σ ∂₂Φᵀ(∂₁Ψᵀ)ʲ∇₁E(w_t): equal but for rounding."""
    itd, fp = mean(data, "br", "itd"), mean(data, "br", "fp-momentum")
    above = itd > 1e3 * mean(data, "br", "itd").min()
    assert np.abs(itd / fp - 1)[above].max() < 1e-3


def test_ten_steps_of_cg_beat_ten_of_fp_on_three_of_four(data: Any) -> None:
    result = claims.few_steps(data)
    assert [name for name, (fp, cg) in result.items() if cg < fp] == ["lr", "krr", "br"]
    for name, (fp, cg) in result.items():
        assert min(fp, cg) > 10 * claims.resting(data[name], "aid-cg"), name


def test_growth_on_hr_and_its_cause(data: Any) -> None:
    grown = claims.growth
    for method in PAPER:
        assert grown(data, "heavy-ball", "growth", method) > 10
    # without heavy ball r_t falls at every step, and the error grows all the same
    assert all((np.diff(one["gradient-descent"]["distance"]) < 0).all() for one in data["hr"]["growth"])
    assert any((np.diff(one["heavy-ball"]["distance"]) > 0).any() for one in data["hr"]["growth"])
    assert grown(data, "gradient-descent", "growth", "aid-cg") > 20
    # the same iterates, w(λ) and w' with ν₂ = 0: most of it is gone, with heavy ball too
    for dynamics in ("gradient-descent", "heavy-ball"):
        before, after = (grown(data, dynamics, what, "aid-cg") for what in ("growth", "without_nu_2"))
        assert after < before / 10
        assert all(one[dynamics]["same"] < 1e-9 for one in data["hr"]["growth"])  # the same ∇f


def test_what_float32_leaves_is_rounding(data: Any) -> None:
    for name in ("krr", "br"):
        rest32, rest64 = (claims.resting(data[name], "aid-cg", kind) for kind in ("float32", "float64"))
        assert rest64 < 1e-3 * rest32
        u = 2**-24 * np.mean([one["exact"] for one in data[name]["end"]])  # of ∇f rounded once
        assert 10 * u < rest32 < 100 * u * np.mean(data[name]["kappa"])
    for name in PROBLEMS:
        for one in data[name]["end"]:
            for part in one["methods"].values():
                assert part["floor64"] == pytest.approx(part["floor32"] * UNITS)
    # of the two that are compared the closed form is the worse on BR, and the better on KRR
    for one in data["br"]["end"]:
        assert one["methods"]["aid-cg"]["own"] < one["closed_form"]
    for one in data["krr"]["end"]:
        assert one["methods"]["itd"]["own"] > one["closed_form"]


def test_every_bound_holds_and_is_drawn(data: Any, outcome: Any) -> None:
    for name in PROBLEMS:
        for method in PAPER:
            part = data[name]["methods"][method]
            assert all(verdict == "holds" for one in part["verdicts"] for verdict in one.values()), (name, method)
            assert part["tightest"]["certified"] >= 1
            assert np.isfinite(part["paper"][-1])
            assert part["certified"][-1] <= part["paper"][-1]
    assert set(outcome.figures) == {"fig1", "fig1-bounds", "fig1-bounds-k10"}
    for name, lines in (
        ("fig1", {"itd", "fp-momentum", "aid-cg", "fp-momentum:10", "aid-cg:10"}),
        ("fig1-bounds", KINDS),
    ):
        for axes in outcome.figures[name].axes:
            drawn = {line.get_gid() for line in axes.lines}
            assert set(lines) - {"afterwards"} <= drawn, axes.get_title()  # ITD on HR has no bound a posteriori
    assert [axes.get_title() for axes in outcome.figures["fig1"].axes] == ["LR", "KRR", "BR", "HR"]
    few = outcome.figures["fig1-bounds-k10"]
    assert len(few.axes) == 8  # FP and CG with k = 10 on four problems, without floors
    for axes in few.axes:
        gids = {line.get_gid() for line in axes.lines}
        assert {"float32", "float64", "certified", "paper"} <= gids
        assert not {"floor32", "floor64"} & gids


def test_ten_steps_of_cg_on_krr_are_all_that_double_precision_halves(data: Any) -> None:
    """With k = 10 the error stops at what the linear system leaves: the same in both precisions, but for CG on KRR."""
    result = claims.double_over_single(data, "aid-cg:10")
    assert 0.3 < result["krr"] < 0.7
    assert result["br"] == pytest.approx(1, rel=0.01)
    assert result["hr"] == pytest.approx(1, rel=0.01)


def test_rounding_delays_cg_on_krr_by_one_step() -> None:
    """Loss of orthogonality: in float32 CG is after k + 1 steps where it is in float64 after k, while both fall."""
    given = {"problem": "krr", "seed": 0, "device": "cpu", "samples": 3, "sample": 0}
    double, single = (problem_at(given, dtype) for dtype in (torch.float64, torch.float32))
    exact = hypergradient(double, "exact", t=200).value

    def error(problem: Problem, k: int) -> float:
        return float((hypergradient(problem, "aid-cg", t=200, k=k).value.double() - exact).norm())

    for k in (10, 11):
        assert error(single, k) > 1.5 * error(double, k)
        assert error(single, k + 1) == pytest.approx(error(double, k), rel=0.1)


def test_claims_say_what_was_found(outcome: Any) -> None:
    held = {claim.what: claim.holds for claim in outcome.claims}
    assert held["all methods with k = t converge linearly"] is True
    assert held["CG best, then FP, ITD worst, on average; FP on the map of heavy ball"] is True
    assert held["CG best, then FP, ITD worst, on average; FP on Φ, the contraction of the theorems"] is False
    assert held["because heavy ball may diverge at first"] is False
    assert all(claim.where and claim.ours for claim in outcome.claims)

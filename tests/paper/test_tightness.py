"""The experiment on tightness: its parts on real runs, and its report with every table and picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boundcheck.engine.experiment import Claim, Outcome, Task
from boundcheck.paper import load
from boundcheck.paper.output import as_json, markdown
from boundcheck.paper.tightness import experiment as tightness
from boundcheck.paper.tightness.certified import KINDS, METHODS, certified, newton_steps
from boundcheck.worst_case.target import CLAIMS, names

COMMON = {"quick": True, "seed": 0, "device": "cpu"}


def run(**parameters: Any) -> dict[str, Any]:
    return tightness.run(Task("one", {**COMMON, **parameters}), None)


def test_the_full_setting_leaves_nothing_out() -> None:
    full = tightness.settings(False, 0, "cpu")
    keys = [task.key for task in tightness.tasks(full)]
    assert len(set(keys)) == len(keys)
    assert {f"worst-{name}" for name in names()} <= set(keys)
    assert {f"certified-{name}-gradient-descent" for name in ("lr", "krr", "br", "hr")} <= set(keys)
    assert set(tightness.settings(True, 0, "cpu")) == set(full)


def test_a_false_claim_is_refuted_and_a_bound_attained() -> None:
    result = run(what="worst", bound="appB-aid", t=1, k=1, dim=1)
    assert result["refuted"]
    assert result["ratio"] == pytest.approx(1.9, abs=1e-3)
    result = run(what="worst", bound="itd-local", t=3, k=3, dim=1)
    assert not result["refuted"]
    assert result["ratio"] == pytest.approx(1, abs=1e-3)
    assert result["k"] is None


def test_a_map_finds_what_is_known() -> None:
    result = run(what="map", bound="itd", qs=[0.9], ts=[1], ks=[1])
    assert result["cells"][0]["ratio"] == pytest.approx(10 / 19, abs=1e-3)


def test_on_br_bounds_are_within_ten_times_the_error_before_anything_is_run() -> None:
    result = certified("br", "gradient-descent", 12, 0, "cpu")
    assert result["verdict"] == "holds"
    for method in METHODS:
        one = result["methods"][method]
        assert 1 <= one["a priori"]["ratio"].min() <= one["a priori"]["ratio"].max() < 10
        assert one["a posteriori"]["ratio"].max() < one["a priori"]["ratio"].max() < one["paper"].max()
        assert one["enclosure"].max() < 1 + 1e-9
        assert [link for link, _ in one[KINDS[1]]["worst"]["links"]] == ["triangle inequality"]
        assert 1 - 1e-9 <= one[KINDS[1]]["ratio"].min() <= one[KINDS[1]]["ratio"].max() < 2
        (first, slack), *_ = one["a priori"]["worst"]["links"]
        assert slack > 1.5
        assert first


def test_a_quadratic_is_enclosed_after_one_newton_step() -> None:
    assert newton_steps("br", (0, 5), 0, "cpu") == {"0": 1, "5": 1}


def made_up() -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of the quick setting: the maps and terms invented, the rest of the right form."""
    settings = tightness.settings(True, 0, "cpu")
    results: dict[str, Any] = {}
    for task in tightness.tasks(settings):
        p = task.parameters
        if p["what"] == "worst":
            ratio = 2.0 if p["bound"] in CLAIMS else 1.0
            results[task.key] = {"ratio": ratio, "refuted": ratio > 1, "t": p["t"], "k": p["k"], "dim": p["dim"]}
        elif p["what"] in ("map", "full"):
            ks = p["ks"] if p["bound"] != "itd" else [None]
            cells = [
                {"q": 0.9, "t": t, "k": k, "ratio": 0.5, "terms": [{"share": 0.2 * t}]} for t in p["ts"] for k in ks
            ]
            results[task.key] = {"bound": p["bound"], "qs": p["qs"], "ts": p["ts"], "ks": ks, "cells": cells}
        elif p["what"] == "terms":
            results[task.key] = {"rows": [{"parts": ["nu_2"], "ratio": 0.7}]}
        elif p["what"] == "newton":
            results[task.key] = {"0": 3, "1": None}
        else:
            ratio = np.array([20.0, np.nan, 4.0])
            kind = {"ratio": ratio, "bound": [], "worst": {"t": 1, "bound": "itd", "links": [["start", 3.0]]}}
            one = {"error": ratio, "above": ratio > 0, "paper": 100 * ratio, "enclosure": 0 * ratio + 1.5}
            silent = {**kind, "ratio": np.full(3, np.nan), "worst": None}
            kinds = {KINDS[0]: kind, KINDS[1]: silent, KINDS[2]: silent}
            methods = {method: {**one, **kinds} for method in METHODS}
            results[task.key] = {"methods": methods, "verdict": "holds", "eps_g": 1e-9}
    return settings, results


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return tightness.report(*made_up())


def claim(outcome: Outcome, words: str) -> Claim:
    (result,) = (one for one in outcome.claims if words in one.what)
    return result


def test_the_report_says_what_holds(outcome: Outcome) -> None:
    assert claim(outcome, "needs to be clarified").ours == "4 of 4 bounds are attained, none refuted"
    assert claim(outcome, "at every t and k").holds
    assert claim(outcome, "appendix B").ours == "refuted"
    assert claim(outcome, "itd on bilinear instances, q = 0.9, t = 1").holds is False  # 0.5 is not 10/19
    within = claim(outcome, "lr, gradient-descent, itd")
    assert (within.ours, within.holds) == ("enclosure", True)
    assert "a priori ≤ 20" in within.why


def test_the_report_has_every_table_and_picture(outcome: Outcome) -> None:
    assert set(outcome.tables) == {"worst", "maps", "terms", "certified", "newton"}
    assert "| `itd` at t = 1: start ×3.000 |" in outcome.tables["certified"]
    assert "| lr | 3 | – |" in outcome.tables["newton"]
    assert "`boundcheck worst appB-aid --t 1 --k 1 --dim 1 --quick` | 2.000000 | refuted" in outcome.tables["worst"]
    assert set(outcome.figures) == {"map-itd", "map-aid-fp", "full-itd", "full-aid-fp", "certified"}
    assert len(outcome.figures["certified"].axes) == 12
    assert "| 0.9 | – | 0.5000 | 0.5000 |" in outcome.tables["maps"]
    experiment = load("tightness")
    assert "refuted" in markdown(experiment, outcome, made_up()[0])
    assert as_json(experiment, outcome, made_up()[0])["data"]["results"]["newton-lr"]["1"] is None

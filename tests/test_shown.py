"""Every result shows itself: a few lines for `print`, one for the prompt, a small table for notebooks."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from test_card import EVIL, Tags

import boundcheck as bc
from boundcheck.report.run_trace import RunTrace
from boundcheck.side import Side


@cache
def problem() -> bc.Problem:
    return replace(bc.problems.scalar(), name=EVIL)


@cache
def results() -> dict[str, Any]:
    itd = bc.hypergradient(problem(), "itd", t=3)
    constants = bc.estimate_constants(problem())
    return {
        "Report": bc.check(problem(), ["itd", "aid-cg"], t=4),
        "Plan": bc.plan(problem(), 1.0),
        "Constants": constants,
        "Constant": constants["q"],
        "Enclosure": bc.enclose(problem(), itd),
        "Hypergradient": itd,
        "AccurateHypergradient": bc.hypergradient(problem(), rtol=0.1),
        "Worst": bc.worst("itd", t=2, quick=True),
        "Audit": bc.audit(problem(), itd.value),
        "RunTrace": bc.follow(problem(), outer_step=0.01, steps=3),
        "Minimum": bc.minimise(problem(), tol=10.0, steps=5, prove=False),
    }


NAMES = (
    "Report", "Plan", "Constants", "Constant", "Enclosure", "Hypergradient", "AccurateHypergradient", "Worst", "Audit",
    "RunTrace", "Minimum",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_it_is_short(name: str) -> None:
    shown = results()[name]
    assert len(str(shown).splitlines()) <= 20
    assert len(str(shown)) <= 1500
    assert "\n" not in repr(shown)
    assert len(repr(shown)) <= 300
    assert len(shown._repr_html_()) <= 8000


@pytest.mark.parametrize("name", NAMES)
def test_html_is_well_formed_and_text_is_escaped(name: str) -> None:
    shown = results()[name]
    tags = Tags(shown._repr_html_())
    assert tags.open == []
    assert tags.seen <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    if EVIL in str(shown):
        assert EVIL in tags.words


def test_names_are_shown() -> None:
    assert {name for name in NAMES if EVIL in str(results()[name])} >= {"Report", "Plan", "RunTrace"}


@pytest.mark.parametrize(
    ("side", "word"),
    [("exact", "proved"), ("upper", "proved"), ("lower", "estimated"), ("high-probability", "probable")],
)
def test_the_words_say_what_is_known(side: str, word: str) -> None:
    enclosure = bc.Enclosure(
        np.float64(0.12345678), np.float64(0.12345712), Side(side), 0.25 if word == "probable" else 0.0
    )
    ends = "between 0.123456 and 0.123458"
    assert str(enclosure) == f"{ends}, {word}" + (" (probability 0.75)" if word == "probable" else "")


def test_an_enclosure_says_which_end_is_not_known() -> None:
    zero, one, infinite = np.float64(0), np.float64(1), np.float64(np.inf)
    assert str(bc.Enclosure(zero, one, Side.UPPER)) == "at most 1, proved"
    assert str(bc.Enclosure(one, infinite, Side.UPPER)) == "at least 1, proved"
    assert str(bc.Enclosure(zero, infinite, Side.LOWER)) == "not known, estimated"
    many = results()["Report"].enclosure("itd")
    assert str(many).startswith("1 × 4 errors, at the last t between ")


def test_a_constant_says_how_it_is_known() -> None:
    constants = bc.Constants.given(q=0.9, mu=0.1, D=1.0, side="upper", sides={"D": "lower"})
    assert str(constants["q"]) == "q = 0.9, proved upper bound\ngiven by the user"
    assert str(constants).splitlines()[0] == "3 constants: 1 proved, 2 estimated"
    assert "mu      0.1  estimated from above" in str(constants)
    assert repr(constants["q"]) == "Constant('q', 0.9, 'upper')"
    assert eval(repr(constants["q"]), {"Constant": bc.Constant}) == constants["q"]
    likely = bc.Constant("q", 0.9, "high-probability", bc.Provenance("Lanczos", delta=0.25))
    assert str(likely).splitlines()[0] == "q = 0.9, probable upper bound (probability 0.75)"


def test_a_report_says_its_verdict_and_the_error_of_each_method() -> None:
    report = results()["Report"]
    lines = str(report).splitlines()
    assert lines[1] == report.summary.verdict_sentence
    for m in report.summary.methods:
        (line,) = [line for line in lines if line.split()[:1] == [m.method]]
        assert f"{100 * m.relative_error:.3g}%" in line
        assert m.best.name in line


def test_a_plan_says_the_cheapest_steps() -> None:
    plan = results()["Plan"]
    best = plan.cheapest
    assert f"{best.method} with t = {best.t}" in str(plan).splitlines()[1]
    assert "is enough, proved by" in str(plan).splitlines()[1]
    estimates = replace(best, side=Side.LOWER)
    weak = replace(plan, guarantees=(estimates,))
    assert "estimated, so nothing is guaranteed" in str(weak).splitlines()[1]
    none = replace(plan, guarantees=(), offers=(), silent={"itd": "itd: no bound applies"})
    assert str(none).splitlines()[1].startswith("no bound gives a guarantee")
    assert "itd: no bound applies" in str(none)


def test_a_hypergradient_without_an_error_says_so() -> None:
    assert "its error was not computed" in str(results()["Hypergradient"])
    accurate = results()["AccurateHypergradient"]
    assert "(proved)" in str(accurate)
    assert "not proved: the reason" in str(replace(accurate, why_not_proved="the reason"))


def test_to_frame_of_a_report() -> None:
    pytest.importorskip("pandas")
    report = results()["Report"]
    frame = report.to_frame()
    assert list(frame.columns[:7]) == ["method", "sample", "t", "k", "error", "floor", "relative_error"]
    assert len(frame) == 2 * 4
    row = frame[(frame["method"] == "aid-cg") & (frame["t"] == 3)].iloc[0]
    curve = report.curve("aid-cg")
    assert row["error"] == curve.errors[0, 2]
    assert row["floor"] == curve.floor[0, 2]
    assert row["k"] == 3
    assert row["relative_error"] == curve.errors[0, 2] / report.gradient_norms[0]
    applicable = {name for c in report.curves.values() for name in c.applicable}
    assert set(frame.columns[7:]) == applicable
    for name in curve.applicable:
        np.testing.assert_equal(row[name], curve.bounds[name].values[0, 2])
    assert frame.loc[frame["method"] == "itd", "aid-cg"].isna().all()
    assert replace(report, gradient_norms=()).to_frame()["relative_error"].isna().all()


def test_to_frame_of_the_others() -> None:
    pytest.importorskip("pandas")
    constants = results()["Constants"].to_frame()
    assert dict(zip(constants["name"], constants["value"], strict=True))["q"] == results()["Constants"]["q"].value
    assert set(constants["known"]) == {"proved"}
    run = results()["RunTrace"]
    steps = run.to_frame()
    np.testing.assert_array_equal(steps["relative_error"], run.column("relative_error"))
    assert list(steps["side"]) == [row.accuracy.error.side.value for row in run.rows]
    assert list(RunTrace("none", ()).to_frame().columns) == list(steps.columns)
    plan = results()["Plan"]
    offers = plan.to_frame()
    assert len(offers) == len(plan.offers)
    assert offers["best"].sum() == len(plan.guarantees)


def test_without_pandas_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for name in ("Report", "Constants", "RunTrace", "Plan"):
        with pytest.raises(bc.InputError, match=r"^to_frame needs pandas, .*; pip install 'boundcheck\[frames\]'$"):
            results()[name].to_frame()

"""A stochastic report as JSON and as a table, its sentences, and steps from text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stochastic_reports import (
    ALL,
    changed,
    holds,
    many_methods,
    one_hyperparameter,
    two_methods,
    two_methods_in_doubt,
    undecided,
)

import boundcheck as bc
from boundcheck.report import stochastic_json, stochastic_words
from boundcheck.report.stochastic_curve import Measured
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.report.stochastic_summary import error_parts
from boundcheck.report.stochastic_verdict_words import verdict_sentence
from boundcheck.report.verdict import Verdict
from boundcheck.views import stochastic_files


@pytest.mark.parametrize("name", ALL)
def test_what_is_read_again_is_the_same(name: str, tmp_path: Path) -> None:
    first = ALL[name]()
    (tmp_path / "report.json").write_text(json.dumps(first.to_json(), allow_nan=False), encoding="utf-8")
    again = StochasticReport.load(tmp_path)
    assert again.to_json() == first.to_json()
    assert (again.steps, again.radius, again.certificate) == (first.steps, first.radius, first.certificate)
    assert again.table(verbose=True) == first.table(verbose=True)


def test_each_kind_names_the_other_loader(tmp_path: Path) -> None:
    ordinary, random = tmp_path / "a.json", tmp_path / "b.json"
    ordinary.write_text(json.dumps({"schema": 1, "version": "0.2.0"}))
    random.write_text(json.dumps(holds().to_json()))
    with pytest.raises(bc.InputError, match=r"read it with StochasticReport\.load"):
        bc.Report.load(random)
    with pytest.raises(bc.InputError, match=r"read it with Report\.load"):
        StochasticReport.load(ordinary)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"kind": "other"}, "kind 'other'"), ({"schema": 2}, "schema 2"), ({"curves": [{}]}, "is not a report"),
     ({"steps": {"eta": 2.0}}, "is not a report")],
)  # fmt: skip
def test_a_broken_file_is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**holds().to_json(), **change}))
    with pytest.raises(bc.InputError, match=message):
        StochasticReport.load(path)


def test_an_end_that_is_not_finite_says_nothing() -> None:
    content = holds().to_json()
    mse = content["curves"][0]["means"]["mse"]
    mse["lower"][-1] = mse["upper"][-1] = None
    mean = stochastic_json.from_json(content).curve("sid").means["mse"]
    assert (mean.lower[-1], mean.upper[-1]) == (0, np.inf)


def test_the_parts_of_the_error_add_up_to_it() -> None:
    of, curve = error_parts(holds(), "sid"), holds().curve("sid")
    assert of.error.value == pytest.approx(np.sqrt(curve.means["mse"].value[-1]) / 2)  # ‖∇f‖ = 2
    assert sum(of.shares.values()) == pytest.approx(1)
    expected = curve.means["variance_given_w"].value[-1] / curve.means["mse"].value[-1]
    assert of.shares[Measured.VARIANCE_GIVEN_W] == pytest.approx(expected)
    assert not error_parts(one_hyperparameter(), "sid").relative


def test_the_verdict_in_words() -> None:
    said = {name: verdict_sentence(of()) for name, of in ALL.items()}
    assert said["holds"] == "holds with high probability: all 6 applicable bounds hold, with confidence 99.9%"
    assert said["undecided"] == (
        "inconclusive: 5 of 6 applicable bounds hold, with confidence 99.9%; the other one was neither confirmed nor "
        "contradicted (the estimate is above it); more runs would decide it"
    )
    assert said["violated"].endswith("the runs contradict 1 of 6 applicable bounds, with confidence 99.9%")
    assert said["no_ball"] == (
        "consistent: the 6 applicable bounds were neither confirmed nor contradicted; nothing is proved"
    )
    assert said["diverging"] == "no bound applies"


def test_every_bound_that_is_not_decided_is_counted() -> None:
    """Whether the estimate is above the bound or below."""
    report = undecided()
    for name, more in (("sid-mse", 900), ("sid-bias", 90_000), ("stochastic-recursive", None)):
        report = changed(report, name, verdict=Verdict.CONSISTENT, reason="undecided at t = 1", more_runs=more)
    assert verdict_sentence(report) == (
        "inconclusive: 2 of 6 applicable bounds hold, with confidence 99.9%; the other 4 were neither confirmed nor "
        "contradicted (the estimate is above 1 of them); more runs would decide 3 of them"
    )
    below = changed(report, "sid-orthogonal", verdict=Verdict.CONSISTENT)
    assert verdict_sentence(below) == (
        "consistent: 2 of 6 applicable bounds hold, with confidence 99.9%; the other 4 were neither confirmed nor "
        "contradicted; more runs would decide 3 of them"
    )
    assert "would decide them" in verdict_sentence(changed(below, "stochastic-recursive", more_runs=1))


def test_constants_with_a_probability_lower_the_confidence() -> None:
    probable = bc.Constant("q", 0.95, "high-probability", bc.Provenance("lanczos", delta=0.01))
    report = replace(holds(), constants=holds().constants.replace(probable))
    assert verdict_sentence(report).endswith("with confidence 98.9%")
    assert "with probability 98.9% (" in stochastic_words.intervals_sentence(report)
    assert "confidence 98.9%" in str(report)


def test_what_to_do_next_names_runs_and_the_largest_part() -> None:
    steps = "\n".join(stochastic_words.next_steps(ALL["undecided"]()))
    assert "About 6200 more runs would decide sid-orthogonal on sid (--runs 7200)." in steps
    assert "Most of the error of sid is variance from the linear solver" in steps
    assert "(--batch 40)" in steps
    assert "1/(1 + σ₂) = 0.0312" in steps
    assert "sid-mse on sid is not decided" in "\n".join(stochastic_words.next_steps(two_methods_in_doubt()))
    whole = replace(holds(), problem={**holds().problem, "batch": 120})
    assert "--batch" not in "\n".join(stochastic_words.next_steps(whole))


def test_the_table_has_a_row_for_each_method_and_point(tmp_path: Path) -> None:
    frame = two_methods().to_frame()
    assert len(frame) == 16
    assert {"method", "t", "k", "mse", "mse_lower", "mse_upper", "bias", "sid-mse", "stochastic-recursive"} <= {*frame}
    lines = stochastic_files.curves_csv(two_methods()).splitlines()
    assert len(lines) == 17
    assert lines[0].split(",") == list(frame)
    assert float(lines[1].split(",")[4]) == frame["mse"][0]
    names = {path.name for path in stochastic_files.save(two_methods(), tmp_path, figures=False)}
    assert names == {"report.json", "curves.csv"}


@pytest.mark.parametrize("name", ALL)
def test_a_card_is_short(name: str) -> None:
    text = str(ALL[name]())
    assert len(text.splitlines()) <= 20
    assert len(text) <= 1500
    assert len(many_methods()._repr_html_()) <= 8000


@pytest.mark.parametrize("text", ["0.5", "2/(10+i)", "0.1 for 50 steps, then 20 / (200 + i)", "η = .25", "1e-3"])
def test_steps_from_text_and_back(text: str) -> None:
    steps = bc.StepSchedule.parse(text)
    assert bc.StepSchedule.parse(str(steps)) == steps
    assert [steps.at(i) for i in (0, 60)] == {
        "0.5": [0.5, 0.5], "2/(10+i)": [0.2, 2 / 70], "η = .25": [0.25, 0.25], "1e-3": [1e-3, 1e-3],
        "0.1 for 50 steps, then 20 / (200 + i)": [0.1, 20 / 210],
    }[text]  # fmt: skip


@pytest.mark.parametrize("text", ["", "x", "2", "-0.1", "nan", "1/2", "2/(10+j)", "2/(1+i)", "0", "1e400"])
def test_other_texts_are_no_steps(text: str) -> None:
    with pytest.raises(bc.InputError, match=r"is not a step|so a step is above 1"):
        bc.StepSchedule.parse(text)

"""A report as JSON, CSV and files: strict, whole, and the same when read again."""

from __future__ import annotations

import csv
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small import small

import boundcheck as bc
from boundcheck import Report
from boundcheck.views import report_files


@cache
def report(samples: int = 1) -> Report:
    return bc.check(small("lr"), ["itd", "aid-fp", "aid-cg:3"], t=12, samples=samples, seed=0)


@cache
def diverging() -> Report:
    """From w_0 = 10 the iterates of 8w³ leave the numbers; a fixed point is at 0.35."""
    problem = bc.Problem.from_map(
        lambda w, lam: 8 * w**3 + lam, lambda w, lam: w.sum(), 10 * torch.ones(1).double(), torch.zeros(1).double()
    )
    result = bc.check(problem, ["itd"], t=12)
    assert np.isinf(result.curve("itd").errors).any()
    return result


def strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("made", [report, lambda: report(3), diverging], ids=["one", "three", "diverging"])
def test_what_is_read_again_is_the_same(made: Any, tmp_path: Path) -> None:
    first = made()
    path = tmp_path / "report.json"
    path.write_text(json.dumps(first.to_json(), allow_nan=False), encoding="utf-8")
    strict(path.read_text())
    again = Report.load(path)
    assert again.to_json() == first.to_json()
    assert again.verdicts == first.verdicts
    assert again.table() == first.table()
    for method, curve in first.curves.items():
        np.testing.assert_array_equal(again.curve(method).errors, curve.errors)
        for name, bound in curve.bounds.items():
            np.testing.assert_array_equal(again.curve(method).bounds[name].values, bound.values)
            np.testing.assert_array_equal(again.curve(method).bounds[name].tightness, bound.tightness)


def test_the_keys_of_the_contract() -> None:
    content = report(3).to_json()
    assert {"schema", "version", "problem", "constants", "curves", "verdict"} <= set(content)
    assert content["schema"] == 1
    assert {"name", "dim", "hdim", "seed", "dtype", "device"} <= set(content["problem"])
    assert {"value", "side", "how"} <= set(content["constants"]["q"])
    itd, fp, cg = content["curves"]
    assert [c["k_policy"] for c in (itd, fp, cg)] == [None, "k = t", "k = 3"]
    assert (fp["k"], cg["k"]) == (list(range(1, 13)), [3] * 12)
    for curve in (itd, fp, cg):
        assert {"method", "t", "k", "error", "floor", "bounds", "rate_measured", "trace"} <= set(curve)
        assert len(curve["error"]) == len(curve["t"]) == 12
        np.testing.assert_allclose(curve["error"], np.mean(curve["error_of_each"], axis=0))
        for bound in curve["bounds"].values():
            assert {"values", "side", "verdict", "tightness", "rate_predicted"} <= set(bound)
    links = itd["trace"]["links"]
    assert {"name", "value", "slack"} == set(links[0])
    ratio = itd["bounds"]["itd"]["values_of_each"][0][-1] / itd["error_of_each"][0][-1]
    assert math.prod(link["slack"] for link in links) == pytest.approx(ratio)


def test_the_csv_has_every_number() -> None:
    rows = list(csv.DictReader(report_files.curves_csv(report(3)).splitlines()))
    assert len(rows) == 3 * 3 * 12
    row = next(r for r in rows if (r["method"], r["sample"], r["t"]) == ("aid-fp", "2", "7"))
    curve = report(3).curve("aid-fp")
    assert float(row["error"]) == curve.errors[2, 6]
    assert float(row["aid-fp"]) == curve.bounds["aid-fp"].values[2, 6]
    assert row["itd"] == ""
    assert row["k"] == "7"


def test_saving_writes_every_file(tmp_path: Path) -> None:
    report().save(tmp_path / "new" / "place")
    names = {path.name for path in (tmp_path / "new" / "place").iterdir()}
    assert {"report.json", "curves.csv", "errors.png", "errors.svg", "tightness.png", "constants.png"} <= names
    assert {"trace-itd.png", "trace-itd.svg", "trace-aid-fp.png", "trace-aid-cg-3.png"} <= names
    assert len(names) == 2 + 2 * 6
    assert not [name for name in names if name.startswith(".")]
    assert Report.load(tmp_path / "new" / "place").verdicts == report().verdicts


def test_an_interrupt_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "out"
    report().save(place)
    before = {path.name: path.read_bytes() for path in place.iterdir()}

    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report(3).save(place)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_an_interrupt_while_figures_are_drawn_leaves_the_report_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "out"
    report().save(place)
    before = {path.name: path.read_bytes() for path in place.iterdir()}

    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("boundcheck.views.figures.report_figures.tightness", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report(3).save(place)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(bc.InputError, match="cannot be made"):
        report().save(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1, 2]", "has schema None, not 1"),
        ('{"schema": 7}', "has schema 7, not 1"),
        ('{"schema": 1, "problem": {}}', "is not a report of boundcheck check"),
    ],
)
def test_files_that_are_no_report(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(bc.InputError, match=message):
        Report.load(path)
    with pytest.raises(bc.InputError, match="cannot be read"):
        Report.load(tmp_path / "nowhere.json")


def test_names_that_are_not_there() -> None:
    with pytest.raises(bc.UnknownNameError, match="unknown curve 'itf'"):
        report().curve("itf")
    with pytest.raises(bc.UnknownNameError, match="unknown bound on itd 'aid'"):
        report().trace("itd", "aid")
    with pytest.raises(bc.InputError, match="itd-recursive has no trace on itd"):
        report().trace("itd", "itd-recursive")
    assert report().trace("aid-cg:3").links[0] == "measured"

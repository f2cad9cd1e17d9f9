"""The rows of a run as CSV, as floats for loggers, and in words."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from made_traces import BROKEN, row, trace

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.report.run_step import COLUMNS, WORDS
from boundcheck.side import Side


def test_csv_has_every_number_and_says_why_one_is_missing() -> None:
    run = trace(3)
    run = replace(run, rows=(*run.rows[:2], BROKEN))
    lines = list(csv.DictReader(io.StringIO(run.to_csv())))
    assert tuple(lines[0]) == COLUMNS
    assert float(lines[1]["relative_error"]) == run.rows[1].accuracy.relative_error
    assert (lines[1]["t"], lines[1]["cost"], lines[1]["descent"]) == ("5", "9", "1.0")
    assert lines[1]["side"] == lines[1]["r_t_bound_side"] == "upper"
    assert lines[0]["lam_step"] == lines[0]["decrease"] == lines[0]["t_enough"] == ""
    assert {name: cell for name, cell in lines[2].items() if cell} == {"step": "2", "why": BROKEN.why}


def test_the_file_is_the_text(tmp_path: Path) -> None:
    assert trace().save(tmp_path / "run.csv").read_text(encoding="utf-8") == trace().to_csv()
    with pytest.raises(InputError):
        trace().save(tmp_path / "no" / "run.csv")


def test_loggers_get_finite_floats_only() -> None:
    assert BROKEN.to_dict() == {"step": 2.0, "proved": 0.0}
    values = row(1).to_dict()
    assert values["r_t_estimate"] == 0.55
    assert all(type(value) is float and math.isfinite(value) for value in values.values())
    assert set(values) - {"proved"} == set(COLUMNS) - WORDS - {"t_enough", "k_enough"}


def test_an_estimate_is_never_a_certain_descent() -> None:
    guess = row(1, side=Side.LOWER)
    assert guess.accuracy is not None
    assert guess.accuracy.descent is True
    assert guess.descent is None
    assert "descent" not in guess.to_dict()
    assert not guess.proved
    assert "descent direction: certain at 0 steps" in trace(side=Side.LOWER).summary()
    assert not trace(side=Side.LOWER).proved
    assert trace().proved


def test_whether_an_estimate_held() -> None:
    assert row(1).estimate_held is True
    far = replace(row(1), estimate=replace(row(1).estimate, value=0.1))
    assert far.estimate_held is False
    assert replace(far, estimate=replace(far.estimate, value=0.502)).estimate_held is None  # within [0.5, 0.505]
    assert row(0).estimate_held is None


def test_columns() -> None:
    assert trace(2).column("step").tolist() == [0.0, 1.0]
    assert math.isnan(trace(2).column("t_enough")[0])
    for name in ("r", "why"):
        with pytest.raises(UnknownNameError):
            trace().column(name)


def test_the_summary() -> None:
    run = trace(4, rtol=0.1)
    lines = replace(run, rows=(*run.rows, BROKEN)).summary().splitlines()
    assert lines[0] == "made: 5 steps watched, completed"
    assert lines[1].startswith("relative error at most 0.049 to 0.4, angle at most")
    assert lines[1].endswith("proved at 4 of 5 steps")
    assert lines[3] == "r_t: the estimate from ‖w'‖ at the previous λ held at 3 of 3 steps"
    assert lines[4] == "relative error 0.1 reached at 2 of 5 steps"
    assert lines[5] == f"note: {BROKEN.why}"

"""A sweep is the check of every point: the same numbers, faults as rows, and it goes on where it was stopped."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from matplotlib.text import Text

import boundcheck as bc
from boundcheck.compare import check as check_module
from boundcheck.sweeps import maps, runs, sentences
from boundcheck.sweeps.axis_text import MOST
from boundcheck.sweeps.grid import Grid
from boundcheck.sweeps.groups import Group
from boundcheck.sweeps.row import SweepRow

QUICK: dict[str, Any] = {"methods": ["itd"], "bounds": ["itd"]}
MINE = """
import boundcheck as bc

def make(q: float = 0.5, seed: int = 0):
    if q > 1:
        raise ValueError("too large")
    return bc.problems.scalar(q=q)

finished = make()
"""


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The t of each check that is made; one with t = 13 is stopped by Ctrl-C, once."""
    seen: list[int] = []
    original: Callable[..., Any] = check_module.check

    def check(problem: Any, methods: Any, **how: Any) -> Any:
        seen.append(how["t"])
        if how["t"] == 13 and seen.count(13) == 1:
            raise KeyboardInterrupt
        return original(problem, methods, **how)

    monkeypatch.setattr(check_module, "check", check)
    return seen


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.fixture(scope="module")
def small() -> bc.Sweep:
    return bc.sweep("scalar", {"q": [0.5, 0.9, 1.5], "t": [5, 8]}, **QUICK)


def test_rows_are_those_of_check(small: bc.Sweep) -> None:
    assert [(row.options["q"], row.options["t"]) for row in small.rows] == [
        (q, t) for q in (0.5, 0.9, 1.5) for t in (5, 8)
    ]
    row = small.rows[3]
    report = bc.check(bc.problems.scalar(q=0.9), ["itd"], t=8, bounds=["itd"])
    best = report.summary.methods[0].best
    assert best is not None
    assert (row.verdict, row.bound, row.known, row.ratio) == (report.verdict.value, best.name, best.known, best.ratio)
    assert row.error == report.curve("itd").errors[0, -1]
    assert row.a_priori == report.curve("itd").bounds["itd"].at_end
    assert row.guaranteed == report.summary.methods[0].steps.guaranteed


def test_a_point_that_raises_is_a_row(small: bc.Sweep) -> None:
    assert [row.verdict for row in small.rows] == ["holds"] * 4 + ["failed"] * 2
    assert small.rows[-1].method == "itd"
    assert "q = 1.5" in small.rows[-1].reason
    assert str(small).startswith("6 checks of scalar over q × t: 4 hold, 2 failed.")
    assert "2 × " in str(small).splitlines()[-1]


def test_the_sentence_has_the_extremes(small: bc.Sweep) -> None:
    held = [row for row in small.rows if row.ratio is not None]
    loosest = max(held, key=lambda row: row.ratio or 0)
    sentence = str(small).splitlines()[1]
    assert (
        f"{loosest.ratio:.3f} at its loosest (itd, q = {loosest.options['q']}, t = {loosest.options['t']})" in sentence
    )


def test_lam_samples_and_seeds() -> None:
    sweep = bc.sweep("lr", {"seed": "0:2"}, t=3, samples=2, options={"features": 3, "size": 4}, **QUICK)
    assert [(row.options["seed"], row.sample) for row in sweep.rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    problem = bc.problems.logistic_regression(seed=1, features=3, size=4)
    report = bc.check(problem, ["itd"], t=3, bounds=["itd"], lam=problem.sample(2)[1])
    assert sweep.rows[3].error == pytest.approx(report.curve("itd").errors[0, -1], rel=1e-9)
    assert len({row.error for row in sweep.rows}) == 4


def test_drawn_lam_without_a_sampler_end_the_sweep() -> None:
    """Otherwise every row would fail."""

    def make(q: float) -> bc.Problem:
        return replace(bc.problems.scalar(q=q), sampler=None)

    with pytest.raises(bc.InputError, match=r"make makes problems without a sampler.*leave out samples"):
        bc.sweep(make, {"q": [0.5]}, t=2, samples=2, **QUICK)


def test_no_proof_counts_as_infinitely_many_steps() -> None:
    rows = [SweepRow({}, i, "itd", "holds", ratio=2.0, guaranteed=t) for i, t in enumerate([5, None, None, 7])]
    assert Group((), "itd", tuple(rows)).median("guaranteed") is None
    assert Group((), "itd", tuple(rows[:2] + rows[3:])).median("guaranteed") == 7
    assert Group((), "itd", tuple(rows[:2])).median("guaranteed") is None
    assert Group((), "itd", (*rows, SweepRow({}, 4, "itd", "failed"))).median("ratio") == 2.0


def test_the_first_screen_keeps_the_axes_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "MOST_LINES", 4)
    axes: dict[str, tuple[Any, ...]] = {"q": (0.5, 0.9), "t": (5, 8), "b": (1.0, 2.0)}
    grid = Grid(axes)
    rows = tuple(SweepRow(point.options, 0, "itd", "holds", ratio=2.0) for point in grid.points)
    text = str(bc.Sweep("scalar", "check", grid, rows, {}))
    assert "t  method" in text
    assert "medians over b, where" in text


def test_endless_axes_are_refused_without_being_read() -> None:
    read = []

    def endless() -> Iterator[int]:
        for number in range(10 * MOST):
            read.append(number)
            yield number

    with pytest.raises(bc.InputError, match=f"--over q has more than {MOST} values"):
        bc.sweep("scalar", {"q": endless()})
    assert len(read) == MOST + 1


def test_plans() -> None:
    sweep = bc.sweep("scalar", {"rtol": [0.1, 0.01]}, methods=["itd"], action="plan")
    first, second = sweep.rows
    plan = bc.plan(bc.problems.scalar(), rtol=0.01, methods=["itd"])
    assert plan.cheapest is not None
    assert second.guaranteed == plan.cheapest.t > (first.guaranteed or 0)
    assert second.needed == (plan.needs["itd"].t if plan.needs["itd"] else None)  # type: ignore[union-attr]
    assert (second.verdict, second.bound) == ("proved", plan.cheapest.bound)
    assert str(sweep).startswith("2 plans of scalar over rtol: 2 proved.")


def test_it_goes_on_where_it_was_stopped(tmp_path: Path, checked: list[int]) -> None:
    def go(place: str) -> bc.Sweep:
        return bc.sweep("scalar", {"t": [2, 13, 4]}, out=tmp_path / place, **QUICK)

    with pytest.raises(KeyboardInterrupt):
        go("out")
    assert checked == [2, 13]
    resumed = go("out")
    assert sorted(checked[2:]) == [4, 13]
    assert resumed.from_before == 1
    assert resumed.rows == go("another").rows
    assert go("out").from_before == 3


def test_another_sweep_in_the_folder_is_refused(tmp_path: Path, mine: Path) -> None:
    def go(values: list[float]) -> bc.Sweep:
        return bc.sweep(f"{mine}:make", {"q": values}, t=2, out=tmp_path / "out", **QUICK)

    assert go([0.5]).rows[0].verdict == "holds"
    with pytest.raises(bc.InputError, match=r"holds another run \(over was \{'q': \[0.5\]\}, now \{'q': \[0.6\]\}\)"):
        go([0.6])
    mine.write_text(MINE + "\nimport beside")
    mine.with_name("beside.py").write_text("")
    with pytest.raises(bc.InputError, match=r"holds another run .digest was"):
        go([0.5])
    (tmp_path / "out2").mkdir()
    assert bc.sweep(f"{mine}:make", {"q": [0.5]}, t=2, out=tmp_path / "out2", **QUICK).rows
    mine.with_name("beside.py").write_text("x = 1")
    with pytest.raises(bc.InputError, match=r"holds another run .digest was"):
        bc.sweep(f"{mine}:make", {"q": [0.5]}, t=2, out=tmp_path / "out2", **QUICK)


def test_functions_and_problems(tmp_path: Path) -> None:
    scalar, offset = bc.problems.scalar, [0.1]
    sweep = bc.sweep(lambda x: scalar(q=x), {"x": [0.5]}, t=2, **QUICK)
    assert sweep.rows[0].verdict == "holds"
    assert bc.sweep(scalar(q=0.4), {"t": [2]}, **QUICK).rows[0].q_local == pytest.approx(0.4)
    assert bc.sweep(partial(_made, b=2.0), {"q": [0.4]}, t=2, out=tmp_path / "a", **QUICK).rows[0].verdict == "holds"
    with pytest.raises(bc.InputError, match="is swept and fixed at"):
        bc.sweep("scalar", {"q": [0.5]}, options={"q": 0.4})
    with pytest.raises(bc.InputError, match="could not tell whether it is the same; put it into a file"):
        bc.sweep(lambda x: scalar(q=x + offset[0]), {"x": [0.5]}, out=tmp_path / "b")
    with pytest.raises(bc.InputError, match=r"cannot be sent to other processes \(.*use jobs=1"):
        bc.sweep(lambda x: scalar(q=x), {"x": [0.5]}, jobs=2)
    with pytest.raises(bc.InputError, match=r"over\['q'\] has \[0.5\], which a table of the sweep cannot hold"):
        bc.sweep("scalar", {"q": [[0.5]]})


def _made(q: float, b: float) -> bc.Problem:
    return bc.problems.scalar(q=q, b=b)


def test_a_file_that_a_worker_lacks_ends_the_sweep(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise every row would fail."""
    original = runs.experiment

    def lost(*given: Any) -> Any:
        mine.unlink()
        return original(*given)

    monkeypatch.setattr(runs, "experiment", lost)
    with pytest.raises(bc.InputError, match=r"mine.py does not exist"):
        bc.sweep(f"{mine}:make", {"q": [0.5]}, t=2, **QUICK)


def test_files_and_maps(tmp_path: Path, small: bc.Sweep) -> None:
    files = {path.name for path in small.save(tmp_path / "out")}
    pictures = {f"map-{what}.{kind}" for what in maps.kinds("check") for kind in ("png", "svg")}
    assert files == {"sweep.csv", "sweep.json", "table.md"} | pictures
    with open(tmp_path / "out" / "sweep.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(small.rows)
    assert (rows[3]["q"], rows[3]["t"], float(rows[3]["ratio"])) == ("0.9", "8", small.rows[3].ratio)
    assert json.loads((tmp_path / "out" / "sweep.json").read_text())["counts"] == {"holds": 4, "failed": 2}
    assert "| 0.9 | 8 | itd | holds |" in (tmp_path / "out" / "table.md").read_text()

    words = [text.get_text().replace("\n", " ") for text in maps.drawn(small, "verdicts").findobj(Text)]
    assert words.count("holds") == 5  # four tiles and the key
    assert words.count("failed") == 3
    swapped = [text.get_text().replace("\n", " ") for text in maps.drawn(small, "tightness", x="q").findobj(Text)]
    assert "scalar: the best bound over the error (median over t)" in swapped
    assert "–" in swapped
    with pytest.raises(bc.UnknownNameError, match="unknown axis 'kappa'"):
        small.plot(tmp_path / "map.png", x="kappa")


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (1.0, "1"), (0.9998, "<1"), (1.0001, ">1"), (0.998, "0.998"), (0.00012345, "1e-4"), (0.03123, "0.031"),
        (1.2345e-12, "1e-12"), (12.345, "12.3"), (123.4, "123"), (12345.0, "1e4"), (1e15, "1e15"), (0.0, "0"),
    ],
)  # fmt: skip
def test_words_on_tiles(value: float, word: str) -> None:
    assert maps._word(value) == word


def test_a_map_says_that_values_are_left_out() -> None:
    grid = Grid({"q": tuple(i / 100 for i in range(1, 61))})
    rows = tuple(SweepRow(point.options, 0, "itd", "holds", ratio=2.0) for point in grid.points)
    words = [text.get_text() for text in maps.drawn(bc.Sweep("scalar", "check", grid, rows, {})).findobj(Text)]
    assert any("24 of 60 values of q are shown" in " ".join(word.split()) for word in words)


def test_the_frame(small: bc.Sweep) -> None:
    pytest.importorskip("pandas", reason="the extra frames is not installed")
    frame = small.to_frame()
    assert list(frame["q"]) == [0.5, 0.5, 0.9, 0.9, 1.5, 1.5]
    assert list(frame["verdict"]) == [row.verdict for row in small.rows]

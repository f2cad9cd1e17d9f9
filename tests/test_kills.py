"""Killed while they write, commands leave whole files only, and the next run leaves nothing of the one before.

The moments are chosen; `benchmarks/kills.py` takes random ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import toy
from command import Command
from stopped import killed_at
from whole import leftovers, visible

from boundcheck.engine.experiment import Experiment
from boundcheck.paper import command

CHECK = ("check", "scalar", "--t", "5", "--method", "itd", "--quiet", "--out")


def same(folder: Path, other: Path) -> bool:
    """But for the seconds that a report took."""
    names = [name for name in visible(folder) if name != "report.json"]
    return all((folder / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_check(boundcheck: Command, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert boundcheck(*CHECK, str(whole)).returncode == 0
    names = visible(whole)
    assert len(names) == 10
    assert leftovers(whole) == []
    for name, count, there in (
        ("errors.svg", 1, 0),  # while figures are drawn: nothing is in place
        ("report.json", 1, 5),  # in the middle of it
        ("tightness.png", 2, 10),  # of a run whose start moved the rest of the set before
    ):
        killed_at(name, count, *CHECK, str(out))
        assert len(visible(out)) == there, name
        assert same(out, whole)
        assert leftovers(out)[0] == ".boundcheck"
    assert boundcheck(*CHECK, str(out)).returncode == 0
    assert visible(out) == names
    assert same(out, whole)
    assert leftovers(out) == []


def test_paper(boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    run = ("paper", "toy", "--quick", "--jobs", "1", "--quiet", "--out")
    monkeypatch.setattr(command, "load", lambda name: Experiment.of(toy))
    assert boundcheck(*run, str(whole)).returncode == 0
    for name, count in (("fingerprint.json", 1), ("walk-0.state", 2), ("walk-1.result", 1), ("table.md", 1)):
        killed_at(name, count, "toy", *run[2:], str(out))
        visible(out)
        assert leftovers(out)[0] == ".boundcheck"
    assert "result.json" in visible(out)  # of the set whose table was about to move
    assert boundcheck(*run, str(out)).returncode == 0
    assert visible(out) == visible(whole)
    assert leftovers(out) == []
    for name in ("result.json", "table.md", "toy.png", "toy.svg"):
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name

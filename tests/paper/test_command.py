"""`boundcheck paper`: what is wrong is said in one line, and nothing is left half-written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import toy
from command import Command

from boundcheck.engine import workers as _workers
from boundcheck.engine.experiment import Experiment
from boundcheck.errors import InputError
from boundcheck.paper import command


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load", lambda name: Experiment.of(toy))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("fig2",), "unknown experiment 'fig2'; did you mean fig1"),
        (("fig1", "--jobs", "0"), "--jobs must be at least 1 (got 0)"),
        (("fig1", "--jobs", "2", "--scheduler", "tcp://h:1"), "--jobs 2 and --scheduler tcp://h:1 were given together"),
        (("table2", "--quick", "--seed", "-1"), "--seed -1 is not a seed; give a whole number from 0"),
        (
            ("states", "--device", "abacus"),
            "device = 'abacus' cannot be used: torch knows no device of that name; this machine has cpu",
        ),
        (
            ("states", "--device", "meta"),
            "device = 'meta' cannot be used: its tensors hold no numbers; this machine has cpu",
        ),
    ],
)
def test_bad_input(boundcheck: Command, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    done = boundcheck("paper", *options, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("with_toy")
def test_without_data_nothing_is_written(boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_DATA", "none")
    done = boundcheck("paper", "toy", "--quick", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr == "boundcheck: walks.csv not found: put it at $BOUNDCHECK_DATA/walks.csv\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("with_toy")
def test_a_place_that_cannot_be_written(boundcheck: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = boundcheck("paper", "toy", "--out", str(tmp_path / "file" / "out"))
    assert done.returncode == 2
    assert "cannot be made" in done.stderr
    assert "is a file; give another directory" in done.stderr


@pytest.mark.usefixtures("with_toy")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(boundcheck: Command, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    done = boundcheck("paper", "toy", "--out", str(tmp_path / "closed" / "out"))
    assert done.returncode == 2
    assert "may not be written to" in done.stderr


@pytest.mark.usefixtures("with_toy")
def test_json_is_the_file_and_nothing_else(boundcheck: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = boundcheck("paper", "toy", "--quick", "--json", "--quiet", "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip("\n") == (out / "result.json").read_text()


@pytest.mark.usefixtures("with_toy")
def test_quick_has_its_own_place(boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for options in (("--quick",), ()):
        done = boundcheck("paper", "toy", *options)
        assert done.returncode == 0, done.stderr
        assert "where walk-0 ends" in done.stdout.replace("\n", " ")
    assert (tmp_path / "out/paper/toy-quick/result.json").exists()
    assert (tmp_path / "out/paper/toy/result.json").exists()


def test_jobs_are_the_cores_with_quick_and_one_without(
    boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, str]] = []

    def workers(jobs: int, scheduler: str) -> _workers.Workers:
        asked.append((jobs, scheduler))
        return _workers.Here()

    monkeypatch.setattr(command, "load", lambda name: Experiment.of(toy))
    monkeypatch.setattr(command, "workers", workers)
    for count, options in enumerate((("--quick",), (), ("--quick", "--jobs", "1"), ("--quick", "--scheduler", "h:1"))):
        for cores in (1, 64):
            monkeypatch.setattr(command, "cores", lambda cores=cores: cores)
            done = boundcheck("paper", "toy", *options, "--out", str(tmp_path / f"{count}"))
            assert done.returncode == 0, done.stderr
    assert asked == [(1, ""), (toy.RUNS // 2, ""), *[(1, "")] * 4, *[(1, "h:1")] * 2]  # as many as there are runs


@pytest.mark.parametrize("address", ["nonsense", "tcp://h", "http://h:1", "tcp://h:x"])
def test_an_address_that_is_none(boundcheck: Command, tmp_path: Path, address: str) -> None:
    pytest.importorskip("distributed", reason="the extra distributed is not installed")
    done = boundcheck("paper", "fig1", "--quick", "--scheduler", address, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"boundcheck: --scheduler {address} is not an address (")
    assert len(done.stderr.splitlines()) == 1


def test_a_cluster_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"--scheduler tcp://h:1 needs distributed, .*boundcheck\[distributed\]"):
        _workers.workers(1, "tcp://h:1")

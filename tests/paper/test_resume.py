"""An experiment can be interrupted at any time; the same command resumes and gives the same result."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
import toy
from started import PAUSE, ended, repeated, result, run_here, start, steps, wait_until

ALL = toy.RUNS * toy.STEPS


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The result of a run without a stop, in this process."""
    return run_here(tmp_path_factory.mktemp("whole"))


def test_killed_at_random_moments(tmp_path: Path, whole: bytes) -> None:
    kills = sorted(random.Random(0).sample(range(5, ALL - 10), 4))
    midway = 0
    for made in kills:
        process = start(tmp_path)
        assert wait_until(lambda made=made: len(steps(tmp_path)) >= made, process)  # type: ignore[misc]
        process.kill()  # SIGKILL
        ended(process)
        midway += len(list((tmp_path / "out" / "checkpoints").glob("*.state")))
    code, _, err = ended(start(tmp_path))
    assert code == 0, err
    assert result(tmp_path) == whole
    assert midway > 0
    assert repeated(tmp_path) <= 8 * len(kills)  # what was made since the last checkpoint: some five steps
    assert not list((tmp_path / "out" / "checkpoints").glob(".*"))


def test_a_finished_run_is_not_made_again(tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    assert run_here(tmp_path) == whole
    code, out, err = ended(start(tmp_path, pause=0))
    assert code == 0, err
    assert result(tmp_path) == whole
    assert len(steps(tmp_path)) == ALL
    assert f"{toy.RUNS} of them from before" in out


@pytest.mark.parametrize("options", [(), ("--jobs", "2")], ids=["here", "two processes"])
def test_ctrl_c_says_how_to_go_on(
    tmp_path: Path, whole: bytes, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(tmp_path, *options, pause=4 * PAUSE)  # so that it does not end before the signal comes
    assert wait_until(lambda: len(steps(tmp_path)) >= 15, process)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert code == 130
    assert f"the same command resumes from {tmp_path / 'out'}" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert out == ""
    first = err.splitlines()[0]
    assert first.startswith("boundcheck: toy: about ")
    assert f"in {'2 processes' if options else 'this process'} (estimated from " in first
    assert "of walk-0, which took" in first
    made = len(steps(tmp_path))
    assert made < ALL
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    assert run_here(tmp_path) == whole
    if not options:  # what was made is kept to the step, and at most the one under way is lost
        assert repeated(tmp_path) <= 1


def test_processes_end_with_the_first_one(tmp_path: Path) -> None:
    process = start(tmp_path, "--jobs", "2", pause=10 * PAUSE)
    assert wait_until(lambda: len({pid for *_, pid in steps(tmp_path)}) == 2, process)
    workers = {pid for *_, pid in steps(tmp_path)}
    process.kill()
    ended(process)
    assert process.pid not in workers
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_a_killed_process_is_told(tmp_path: Path, whole: bytes) -> None:
    process = start(tmp_path, "--jobs", "2", pause=10 * PAUSE)
    assert wait_until(lambda: len(steps(tmp_path)) > 5, process)
    os.kill(steps(tmp_path)[-1][2], signal.SIGKILL)
    code, out, err = ended(process)
    assert code == 2
    assert "one of the processes was killed, perhaps for want of memory; the same command resumes from here" in err
    assert "Traceback" not in err
    assert out == ""
    assert run_here(tmp_path) == whole

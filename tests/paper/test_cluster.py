"""A real Dask cluster of two worker processes, one of them killed midway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import toy
from started import ended, environment, result, run_here, start, steps, wait_until

pytest.importorskip("distributed", reason="the extra distributed is not installed")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler with two workers, of one thread each and without a nanny to bring them back."""
    address = tmp_path / "scheduler.json"
    shared = {"env": environment(tmp_path), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    where = ["--scheduler-file", str(address)]
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    started = [subprocess.Popen([*dask, "scheduler", "--port", "0", *where, *here], **shared)]  # type: ignore[call-overload]
    for _ in range(2):
        options = ["--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path)]
        started.append(subprocess.Popen([*dask, "worker", *where, *here, *options], **shared))  # type: ignore[call-overload]
    try:
        wait_until(lambda: address.exists() and "address" in json.loads(address.read_text() or "{}"))
        yield json.loads(address.read_text())["address"]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_killed_workers(tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two changes nothing; without the other the run ends, and the finished slices are stored."""
    process = start(tmp_path, "--scheduler", cluster, pause=0.05)
    assert wait_until(lambda: len({pid for *_, pid in steps(tmp_path)}) == 2 and len(steps(tmp_path)) > 20, process)
    victim = steps(tmp_path)[-1][2]
    assert victim != process.pid
    os.kill(victim, signal.SIGKILL)
    killed_at = len(steps(tmp_path))
    code, _, err = ended(process)
    assert code == 0, err
    assert "on the cluster at" in err.splitlines()[0]
    assert victim not in {pid for *_, pid in steps(tmp_path)[killed_at + 1 :]}  # one line may have been on its way
    made = len(steps(tmp_path))
    assert made >= toy.RUNS * toy.STEPS
    alone = run_here(tmp_path / "alone")
    assert result(tmp_path) == alone

    monkeypatch.setenv("TOY_ANSWER", "5")
    again = tmp_path / "again"  # the workers write into the same log as before
    process = start(again, "--scheduler", cluster, pause=0.05)
    assert wait_until(lambda: len(steps(tmp_path)) > made + 20, process)
    os.kill(steps(tmp_path)[-1][2], signal.SIGKILL)
    code, out, err = ended(process)
    assert code == 2
    assert "has no workers left; start some with `dask worker tcp://" in err
    assert "the same command resumes from here" in err
    assert "Traceback" not in err
    assert out == ""
    assert list((again / "out" / "checkpoints").glob("walk-*"))
    assert run_here(again) == alone  # goes on without a cluster


def test_no_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_ANSWER", "2")
    process = start(tmp_path, "--scheduler", "tcp://127.0.0.1:1")
    code, out, err = ended(process)
    assert code == 2
    assert err.splitlines()[-1].startswith("boundcheck: --scheduler tcp://127.0.0.1:1 does not answer")
    assert "Traceback" not in err
    assert out == ""
    assert not (tmp_path / "out").exists()

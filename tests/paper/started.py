"""The toy as a real process, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import toy

from boundcheck.engine.conduct import conduct
from boundcheck.engine.experiment import Experiment
from boundcheck.engine.workers import Here
from boundcheck.paper.output import save

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAUSE = 0.02


def environment(folder: Path, pause: float = PAUSE) -> dict[str, str]:
    places = os.pathsep.join(str(place) for place in (ROOT, HERE))
    return {**os.environ, "PYTHONPATH": places, "TOY_PAUSE": str(pause), "TOY_LOG": str(folder / "log")}


def start(folder: Path, *options: str, pause: float = PAUSE) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "toy.py"), "--out", str(folder / "out"), *options]
    return subprocess.Popen(
        command, env=environment(folder, pause), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell ignores it for what runs behind it
    )  # fmt: skip


def run_here(folder: Path) -> bytes:
    """The result of the toy, run in this process without a pause; it goes on from what is there."""
    experiment = Experiment.of(toy)
    settings = experiment.settings(False, 0, "cpu")
    done = conduct(experiment, settings, folder / "out", Here())
    save(experiment, done.outcome, settings, folder / "out")
    return result(folder)


def steps(folder: Path) -> list[tuple[str, int, int]]:
    """(run, step, process) in the order in which they were made."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    results = [line.split() for line in lines]
    return [(key, int(step), int(process)) for key, step, process in (one for one in results if len(one) == 3)]


def repeated(folder: Path) -> int:
    """How many steps were made more than once."""
    return sum(count - 1 for count in Counter((key, step) for key, step, _ in steps(folder)).values())


def wait_until(
    condition: Callable[[], bool], process: subprocess.Popen[str] | None = None, seconds: float = 240
) -> bool:
    """Whether it came true before the process ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        if process is not None and process.poll() is not None:
            return False
        time.sleep(0.005)
    raise TimeoutError(f"nothing for {seconds} s")


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def result(folder: Path) -> bytes:
    return (folder / "out" / "result.json").read_bytes()

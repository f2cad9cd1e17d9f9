"""What the benchmarks share: the best of a few runs, and the peak memory of a piece of code in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def seconds(run: Callable[[], object], repeat: int = 5, warm: bool = True) -> float:
    """The best of a few runs, after one to warm up."""
    if warm:
        run()
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def race(*runs: Callable[[], object], repeat: int) -> list[float]:
    """The best of each, run in turn, so that a noisy minute hurts all of them alike."""
    for run in runs:
        run()
    rounds = [[seconds(run, 1, warm=False) for run in runs] for _ in range(repeat)]
    return [min(times) for times in zip(*rounds, strict=True)]


def race_of_processors(*runs: Callable[[], object], repeat: int, warm: bool = True) -> list[float]:
    """The least seconds of the processor of each, run in turn, after one to warm up."""
    for run in runs if warm else ():
        run()
    best = [float("inf")] * len(runs)
    for _ in range(repeat):
        for i, run in enumerate(runs):
            start = time.process_time()
            run()
            best[i] = min(best[i], time.process_time() - start)
    return best


PEAK = """
import torch, boundcheck as bc
torch.set_num_threads(1)
def peak():  # not ru_maxrss, which a child takes over from its parent
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
{setup}
before = peak()
{code}
print(before, peak())
"""


def peak_megabytes(setup: str, code: str) -> float:
    """By how much `code` raises the peak memory that `setup` left, in a fresh process (Linux only)."""
    run = subprocess.run(
        [sys.executable, "-c", PEAK.format(setup=setup, code=code)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parent,
    )  # fmt: skip
    before, after = map(int, run.stdout.split()[-2:])
    return (after - before) / 1024

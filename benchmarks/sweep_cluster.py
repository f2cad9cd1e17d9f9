"""A sweep of 2,000 checks on a Dask cluster of two workers, one of which is killed on the way: `python FILE`.

Afterwards it prints the seconds, how many points were made after the kill, and how many rows differ from those of the
same points checked in this process (every 40th).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boundcheck as bc

EVERY = 40


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers of one thread, without a nanny to bring them back."""
    address = folder / "scheduler.json"
    where = ["--scheduler-file", str(address), "--host", "127.0.0.1", "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    alone = ["--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
    started = [subprocess.Popen([*dask, "scheduler", "--port", "0", *where], **quiet)]  # type: ignore[call-overload]
    started += [subprocess.Popen([*dask, "worker", *where, *alone], **quiet) for _ in range(2)]  # type: ignore[call-overload]
    try:
        while not (address.exists() and address.read_text()):
            time.sleep(0.1)
        yield json.loads(address.read_text())["address"], started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checks", type=int, default=2000)
    checks = parser.parse_args().checks
    over = {"q": f"0.05:0.95:{checks // 10}", "b": "1:10:10"}
    how = {"t": 20, "methods": ["itd"], "bounds": ["itd", "itd-local"]}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with cluster(folder) as (address, workers):
            killed_at: list[float] = []

            def progress(what: str, done: float, of: float) -> None:
                if not killed_at and done > 0.4 * of:
                    os.kill(workers[0].pid, signal.SIGKILL)
                    killed_at.append(done / of)

            start = time.perf_counter()
            sweep = bc.sweep("scalar", over, **how, scheduler=address, out=folder / "out", progress=progress)  # type: ignore[arg-type]
            seconds = time.perf_counter() - start
        files = len(list((folder / "out" / "checkpoints").glob("*.result")))
    print(sweep.table().splitlines()[0])
    print(f"{seconds:.0f} s; a worker was killed after {100 * killed_at[0]:.0f} % of them; {files} checkpoints")
    different = 0
    for row in sweep.rows[::EVERY]:
        (again,) = bc.sweep("scalar", {name: [value] for name, value in row.options.items()}, **how).rows  # type: ignore[arg-type]
        different += again != row
    print(f"{different} of {len(sweep.rows[::EVERY])} rows differ from those made here")


if __name__ == "__main__":
    main()

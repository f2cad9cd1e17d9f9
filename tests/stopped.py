"""A command that stops where a file gets its final name, to be killed there: python stopped.py NAME COUNT ARGUMENT….

It says so once the file NAME is about to be put in place for the COUNT-th time, and then waits forever. The arguments
are those of `boundcheck`; `toy` as the first one stands for the experiment of tests/paper/toy.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def killed_at(name: str, count: int, *arguments: str) -> None:
    """Start it, wait until it stops there, and kill it."""
    places = os.pathsep.join(str(place) for place in (HERE.parent, HERE / "paper"))
    command = [sys.executable, str(HERE / "stopped.py"), name, str(count), *arguments]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": places}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.kill()  # SIGKILL
    _, err = process.communicate(timeout=60)
    assert line == f"at {name}\n", err


def main() -> None:
    name, count, *arguments = sys.argv[1:]
    left, replace = [int(count)], os.replace

    def stopping(source: Any, target: Any, **options: Any) -> None:
        left[0] -= Path(target).name == name
        if left[0] == 0:
            print(f"at {name}", flush=True)
            time.sleep(10**6)
        replace(source, target, **options)

    os.replace = stopping
    if arguments[0] == "toy":
        import toy

        sys.argv = ["toy", *arguments[1:]]
        toy.main()
    else:
        from boundcheck import cli

        sys.argv = ["boundcheck", *arguments]
        cli.main()


if __name__ == "__main__":
    main()

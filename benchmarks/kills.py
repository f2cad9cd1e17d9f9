"""Kill -9 at random moments: ``python benchmarks/kills.py``, some ten minutes.

`check scalar --t 20 --out DIR` and `paper fig1 --quick --out DIR`, each killed at 20 seeded moments. After every kill
all files under their final names must read whole. The check is then run again and must give the files of a run that
was left alone, and nothing else. The paper goes on in the same folder, with the next kill to come, until it is through.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from whole import leftovers, visible  # noqa: E402

CHECK = ("check", "scalar", "--t", "20", "--quiet", "--out")
PAPER = ("paper", "fig1", "--quick", "--quiet", "--jobs", "2", "--out")


@dataclass
class Tally:
    """What was seen over all kills of a command."""

    name: str
    kills: int = 0
    too_late: int = 0  # the command had ended
    at_work: int = 0  # the lock was there
    writing: int = 0  # and files that were not finished
    files: int = 0  # that were read whole
    runs: int = 0  # to the end
    left: int = 0  # behind after such a run
    different: int = 0  # from a run that was left alone


def start(arguments: tuple[str, ...], out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "boundcheck", *arguments, str(out)]
    places = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=places, stdout=subprocess.DEVNULL, start_new_session=True)


def kill(process: subprocess.Popen[bytes], after: float) -> bool:
    """Whether it was still running."""
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)  # this process alone: its own ones end by themselves
        process.wait()
        return True
    return False


def look(tally: Tally, out: Path) -> None:
    """After a kill: read all that is there."""
    work = out / ".boundcheck"
    tally.at_work += work.exists()
    tally.writing += any((work / name).exists() for name in ("parts", "complete"))
    tally.files += len(visible(out))


def compare(tally: Tally, out: Path, alone: dict[str, bytes]) -> None:
    """After a run to the end."""
    tally.runs += 1
    tally.left += len(leftovers(out))
    tally.different += contents(out) != alone


def contents(out: Path) -> dict[str, bytes]:
    """Without the seconds that runs took, which a report and checkpoints carry."""
    result = {}
    for name in visible(out):
        data = (out / name).read_bytes()
        if name == "report.json":
            message = json.loads(data)
            message.pop("seconds")
            data = json.dumps(message).encode()
        result[name] = b"" if name.startswith("checkpoints") else data
    return result


def run_alone(arguments: tuple[str, ...], out: Path) -> float:
    begin = time.perf_counter()
    if start(arguments, out).wait():
        raise SystemExit(f"{' '.join(arguments)} failed")
    return time.perf_counter() - begin


def of_check(place: Path, count: int, draw: random.Random) -> Tally:
    """Each kill in the folder of the run before, half of them late, when it writes."""
    tally = Tally("check scalar --t 20")
    whole = run_alone(CHECK, place / "alone")
    alone = contents(place / "alone")
    while tally.kills < count:
        out = place / ("out" if tally.runs % 2 else f"new{tally.runs}")  # over old results, and where there are none
        if kill(start(CHECK, out), whole * draw.uniform(0.6 if draw.random() < 0.5 else 0.0, 1.0)):
            tally.kills += 1
            look(tally, out)
        else:
            tally.too_late += 1
        whole = run_alone(CHECK, out)
        compare(tally, out, alone)
    return tally


def of_paper(place: Path, count: int, draw: random.Random) -> Tally:
    tally = Tally("paper fig1 --quick")
    whole = run_alone(PAPER, place / "alone")
    alone = contents(place / "alone")
    number = 0
    while tally.kills < count:
        out = place / f"out{number}"
        if kill(start(PAPER, out), whole * draw.uniform(0.0, 0.5)):
            tally.kills += 1
            look(tally, out)
        else:  # it came through
            tally.too_late += 1
            compare(tally, out, alone)
            number += 1
    run_alone(PAPER, place / f"out{number}")
    compare(tally, place / f"out{number}", alone)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", nargs="?", choices=("check", "paper"), help="one of the two alone")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("command               kills  too late  at work  writing  files read  runs  left behind  different")
    runs = {"check": of_check, "paper": of_paper}
    for run in [runs[given.command]] if given.command else runs.values():
        with tempfile.TemporaryDirectory() as place:
            seen = run(Path(place), given.kills, random.Random(given.seed))
        print(
            f"{seen.name:20s} {seen.kills:6d} {seen.too_late:9d} {seen.at_work:8d} {seen.writing:8d} {seen.files:11d} "
            f"{seen.runs:5d} {seen.left:12d} {seen.different:10d}",
            flush=True,
        )


if __name__ == "__main__":
    main()

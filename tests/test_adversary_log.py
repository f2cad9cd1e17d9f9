"""A long run of the adversary in pieces: nothing is done twice, nothing is lost, and the end tells of everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from adversary import judge, log
from adversary.ask import ask, ask_of
from adversary.log import Chunk
from adversary.run import main
from adversary.tally import Tally
from by_hand import affine, exact_half_square, half_square

HERE = Path(__file__).parents[1]


def tally_of(problems: int, *lies: tuple[str, str]) -> Tally:
    tally = Tally(problems, 0.5 * problems)
    tally.judged["constant"] = 7 * problems
    for kind, line in lies:
        tally.lies[kind].append(line)
    return tally


def test_a_chunk_comes_back_as_it_was(tmp_path: Path) -> None:
    tally = Tally()
    tally.add(ask(1))
    tally.lies["enclosure"].append("[0, 1] upper, error 2 | Φ = ½w + λ")
    log.append(tmp_path / "log", Chunk(3, 1, log.code(), tally))
    (chunk,) = log.read(tmp_path / "log")
    assert (chunk.seed, chunk.numbers, chunk.code) == (3, range(1, 2), log.code())
    assert chunk.tally == tally


def test_only_what_is_not_there_is_left(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for seed, first, problems in ((0, 20, 20), (0, 50, 5), (1, 0, 100)):
        log.append(path, Chunk(seed, first, "code", tally_of(problems)))
    assert log.left(log.read(path), range(10, 60), 0, 20) == [range(10, 20), range(40, 50), range(55, 60)]
    assert log.left(log.read(path), range(100), 1, 20) == []
    assert log.left([], range(5, 30), 0, 20) == [range(5, 25), range(25, 30)]


def test_half_a_line_and_a_line_that_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log.append(path, Chunk(0, 0, "code", tally_of(20)))
    whole = path.read_bytes()
    path.write_bytes(whole + whole + whole[: len(whole) // 2])  # the last as a crash leaves it
    assert [chunk.first for chunk in log.read(path)] == [0]
    log.append(path, Chunk(0, 20, "code", tally_of(20)))
    assert [chunk.first for chunk in log.read(path)] == [0, 20]


def test_the_end_tells_of_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    log.append(path, Chunk(0, 0, "code", tally_of(30, ("violated", "itd"), ("violated", "aid"), ("plan", "t = 3"))))
    assert main(["--first", "0", "--problems", "30", "--jobs", "1", "--log", str(path)]) == 1
    said = capsys.readouterr().out
    for words in ("30 problems", "(30 with other code), 0 are left", "210 statements judged", "3 false", "2  violated"):
        assert words in said
    assert len(path.read_bytes().splitlines()) == 1


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    path, problems = tmp_path / "log", 12
    command = [sys.executable, "-m", "adversary", "--problems", str(problems), "--jobs", "1", "--log", str(path)]
    command += ["--piece", "3"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(HERE), str(HERE / "benchmarks")))}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 120
    while not log.read(path) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    said, _ = process.communicate(timeout=60)
    done = sum(chunk.tally.problems for chunk in log.read(path))
    assert "stopped" in said
    assert 0 < done < problems
    assert f"\n{done} problems, " in said
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    assert f"{done} problems are in the log (0 with other code), {problems - done} are left" in again.stdout
    assert f"\n{problems} problems, " in again.stdout
    assert sorted(n for chunk in log.read(path) for n in chunk.numbers) == list(range(problems))


def test_statements_are_counted() -> None:
    case = affine(half_square, exact_half_square, 3.0)
    for call, kind in (
        ("hypergradient", "derivative"), ("estimate_constants", "constant"), ("enclose", "enclosure"),
        ("check", "verdict"), ("check", "bound that holds, at one t"), ("check", "gradient norm"),
        ("check", "accuracy at the last t"), ("plan", "guarantee"),
    ):  # fmt: skip
        assert ask_of(case, Random(0), call).judged[kind] > 0, (call, judge.JUDGED)

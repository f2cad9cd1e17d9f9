"""`boundcheck sweep`: one line for what is wrong, a first screen, files, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Command

from boundcheck.sweeps import sentences
from boundcheck.sweeps import sweep as sweep_module

QUICK = ("--method", "itd", "--bound", "itd", "--quiet")
MINE = """
import boundcheck as bc
finished = bc.problems.scalar()
def make(q: float = 0.5, t: int = 3): return bc.problems.scalar(q=q)
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scalar",), "no grid was given; add --over NAME=VALUES"),
        (("scalar", "--over", "q"), "--over q is not NAME=VALUES"),
        (("scalar", "--over", "q=0.1:0.9"), "--over q=0.1:0.9 is a range a:b, which is for whole numbers"),
        (("scalar", "--over", "q=a,b"), "option q of scalar must be a number (got 'a')"),
        (("scalar", "--over", "q=0.5", "--over", "q=0.6"), "--over gives q twice"),
        (("scalar", "--over", "kapa=1,2"), "unknown option of scalar 'kapa'; known: b, device"),
        (("lr", "--over", "kapa=1,2"), "unknown option of lr 'kapa'; did you mean kappa?"),
        (("mine.py:finished", "--over", "q=0.5"), "mine.py:finished is a finished problem and takes no q"),
        (("mine.py:make", "--over", "t=1,2"), "--over t: t is an option of mine.py:make and also of the check"),
        (("mine.py:other", "--over", "q=0.5"), "unknown name in mine.py 'other'"),
        (("scalar", "--over", "method=itd,aid-fp"), "--over method is not an axis; name methods with --method"),
        (("scalar", "--over", "t=0,1"), "t must be at least 1 (got 0)"),
        (("scalar", "--over", "q=0.5", "--t", "0"), "--t must be at least 1 (got 0)"),
        (("scalar", "--over", "q=0.5", "--samples", "0"), "--samples must be at least 1 (got 0)"),
        (("scalar", "--over", "q=0.5", "--bound", "itdd"), "unknown bound 'itdd'"),
        (("scalar", "--over", "q=0.5", "--method", "tid"), "unknown method 'tid'"),
        (("scalar", "--over", "q=0.5", "--plan"), "no accuracy was given"),
        (("scalar", "--over", "q=0.5", "--rtol", "0.1"), "rtol and eps are accuracies of plans"),
        (("scalar", "--over", "seed=0:3", "--seed", "1"), "seed is swept and also given as 1"),
        (("scalar", "--over", "q=0.5", "--jobs", "0"), "--jobs must be at least 1 (got 0)"),
        (("scalar", "--over", "q=0:0.9:900", "--over", "b=1:2:900"), "the grid has 810000 points, more than 100000"),
        (("scalar", "--over", "q=0.5", "--plan", "--rtol", "nan"), "--rtol must be a positive number"),
        (("scalar", "--over", "q=0.5", "--plan", "--eps", "-1"), "--eps must be a positive number"),
        (("scalar", "--over", "q=0.5", "--budget", "0"), "--budget must be at least 1 (got 0)"),
        (("scalar", "--over", "eps=0.1,0.2"), "--over eps is not an axis; it is an accuracy of plans"),
        (("scalar", "--over", "t=1,2", "--plan", "--rtol", "0.1"), "--over t is not an axis; plans find t themselves"),
        (("scalar", "--over", "dtype=float16"), ""),
    ],
)
def test_bad_input(
    boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    run = boundcheck("sweep", *arguments, "--out", "out", *(() if message else QUICK))
    if not message:  # known only when a problem is made: a row, and nothing is said anywhere
        assert run.returncode == 3
        assert "1 × unknown dtype 'float16'; did you mean float" in run.stdout
        return
    assert run.returncode == 2
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert run.stdout == ""
    assert not (tmp_path / "out").exists()


def test_the_first_screen(boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    most = sentences.MOST_LINES
    monkeypatch.setattr(sentences, "MOST_LINES", 6)
    command = ("sweep", "scalar", "--over", "q=0.5:0.95:8", "--t", "3", *QUICK)
    run = boundcheck(*command)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == "8 checks of scalar over q: 8 hold."
    assert sum("  itd " in line for line in lines) == 6
    assert "6 of 8 lines; table.md has all" in lines
    assert most + 12 <= 40  # with the sentences, the header, notes, reasons and the place
    assert max(map(len, lines[4:])) <= 80
    assert lines[-1] == "written to out/sweep/scalar"
    again = boundcheck(*command, "--json")
    assert again.stdout.rstrip("\n") == (tmp_path / "out/sweep/scalar/sweep.json").read_text()
    assert len(json.loads(again.stdout)["rows"]) == 8
    assert boundcheck(*command).stdout.splitlines()[-1].endswith("8 points from before")


def test_ctrl_c_says_how_to_go_on(boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: object, **how: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_module, "conduct", stop)
    run = boundcheck("sweep", "scalar", "--over", "q=0.5", "--out", str(tmp_path / "out"))
    assert run.returncode == 130
    assert run.stderr.splitlines()[-1].endswith(f"stopped; the same command resumes from {tmp_path / 'out'}")

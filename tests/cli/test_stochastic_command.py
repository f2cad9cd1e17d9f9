"""`boundcheck check --method sid` and its page as a user meets them: output, files, exit codes, bad input."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from command import Command
from stochastic_reports import ALL, holds

from boundcheck.compare import check_stochastic as module
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.step_schedule import StepSchedule

SMALL = ("lr", "--set-problem", "size=12", "--set-problem", "features=2")
RUN = ("--method", "sid", "--t", "4", "--runs", "20", "--points", "2", "--batch", "3")


class Asked:
    """A stand-in for the check, which remembers what it was asked."""

    def __init__(self, report: StochasticReport) -> None:
        self.report = report
        self.given: dict[str, Any] = {}

    def __call__(self, problem: Any, methods: Any, t: int, runs: int, seed: int, **more: Any) -> StochasticReport:
        self.given = {"problem": problem, "methods": methods, "t": t, "runs": runs, "seed": seed, **more}
        return self.report


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    check = Asked(holds())
    monkeypatch.setattr(module, "check_stochastic", check)
    return check


def test_a_real_run(boundcheck: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = boundcheck("check", *SMALL, *RUN, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "minibatches of 3 of 12 with replacement" in done.stdout.splitlines()[0]
    assert "At t = k = 4 the root mean square error of sid is" in " ".join(done.stdout.split())
    assert {path.name for path in out.iterdir()} == {"report.json", "curves.csv", "errors.png", "errors.svg"}
    report = StochasticReport.load(out)
    assert (report.runs, report.problem["batch"], list(report.curves)) == (20, 3, ["sid"])
    page = boundcheck("page", "--report", str(out), "--out", str(tmp_path / "page.html"))
    assert page.returncode == 0, page.stderr
    assert "minibatches of 3 of 12" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_options_reach_the_check(boundcheck: Command, asked: Asked) -> None:
    steps = ("--step", "2/(10+i)", "--step-v", "0.5", "--level", "0.95", "--seed", "3", "--method", "neumann:20")
    done = boundcheck("check", *SMALL, *RUN, *steps, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "stochastic"
    given = asked.given
    assert (given["methods"], given["t"], given["runs"], given["seed"]) == (["sid", "neumann:20"], 4, 20, 3)
    assert (given["points"], given["level"]) == (2, 0.95)
    assert given["steps"] == StepSchedule.decreasing(2, 10)
    assert given["steps_v"] == StepSchedule.constant(0.5)
    assert given["problem"].finite_sum.batch == 3


def test_minibatches_of_a_built_in_problem_unless_given(boundcheck: Command, asked: Asked, tmp_path: Path) -> None:
    boundcheck("page", *SMALL, "--method", "sid", "--out", str(tmp_path / "p.html"), "--quiet")
    assert asked.given["problem"].finite_sum.batch == 10
    boundcheck("check", *SMALL, "--set-problem", "batch=4", "--set-problem", "replacement=false", *RUN)
    finite_sum = asked.given["problem"].finite_sum
    assert (finite_sum.batch, finite_sum.replacement) == (3, False)


@pytest.mark.parametrize(
    ("name", "code"),
    [("holds", 0), ("undecided", 0), ("no_ball", 0), ("violated", 1), ("diverging", 3)],
)  # fmt: skip
def test_exit_codes(boundcheck: Command, asked: Asked, name: str, code: int) -> None:
    asked.report = ALL[name]()
    done = boundcheck("check", *SMALL, *RUN)
    assert done.returncode == code
    assert done.stderr == ""


REFUSED = {
    "check lr --method sid --method itd": "--method sid draws minibatches and --method itd does not; run them one by",
    "page lr --method itd --method neumann:3": "--method neumann:3 draws minibatches and --method itd does not",
    "check lr --runs 5": "--runs 5 is for methods with minibatches; add --method sid",
    "check lr --method itd --batch 5": "--batch 5 is for methods with minibatches; add --method sid",
    "page lr --step 0.5": "--step 0.5 is for methods with minibatches; add --method sid",
    "check lr --method sid --samples 3": "--samples is for methods without minibatches; leave it out",
    "check lr --method sid --trace-t 3": "--trace-t is for methods without minibatches; leave it out",
    "check lr --method sid --step fast": "--step: 'fast' is not a step; write a number such as 0.5, or 2/(10+i)",
    "check lr --method sid --step-v 2": "--step-v 2: eta = 2.0 is not a step; give a number in (0, 1]",
    "check lr --method sid --runs 1": "--runs must be at least 2 (got 1)",
    "check lr --method sid --points 0": "--points must be at least 1 (got 0)",
    "check lr --method sid --level 1": "--level must be between 0 and 1 (got 1.0)",
    "check lr --method sid --batch 0": "batch",
    "check lr --method sidd": "unknown method 'sidd'",
    "check scalar --method sid": "scalar has no minibatches; give data= and batch= to from_loss or from_map",
    "check scalar --method sid --batch 3": "scalar has no minibatches; give data= and batch= to from_loss or from_map",
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_one_line_and_exit_code_2(boundcheck: Command, words: str) -> None:
    done = boundcheck(*shlex.split(words))
    assert REFUSED[words] in done.stderr
    assert done.stderr.startswith("boundcheck: ")
    assert done.stderr.count("\n") == 1
    assert (done.returncode, done.stdout) == (2, "")

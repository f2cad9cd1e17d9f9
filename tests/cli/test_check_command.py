"""`boundcheck check` and `boundcheck plan` as a user meets them: output, JSON, files, exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command import Command

WRONG = """
from dataclasses import replace
import boundcheck as bc
from boundcheck import ClosedForms

right = bc.load_problem("scalar")
halve = lambda c: replace(c, value=c.value / 2) if c.name == "nu_2" else c
on = lambda lam, region: [halve(c) for c in right.known.on(lam, region)]
problem = replace(right, known=ClosedForms(right.known.everywhere, on))
"""
EXPANSIVE = """
import torch
import boundcheck as bc

one = torch.ones(1, dtype=torch.float64)
problem = bc.Problem.from_map(lambda w, lam: 1.5 * w + lam, lambda w, lam: w.sum(), 0 * one, one)
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "expansive.py").write_text(EXPANSIVE)
    return tmp_path


def test_the_verdict_comes_first(boundcheck: Command) -> None:
    done = boundcheck("check", "scalar", "--t", "20")
    assert done.returncode == 0
    head, verdict = done.stdout.splitlines()[:2]
    assert head.startswith("scalar  d = 1, n = 1")
    assert verdict.startswith("holds: all ")
    for words in ("The run converges.", "of ‖∇f‖", "For an error of 1%:", "boundcheck plan scalar --rtol 0.01"):
        assert words in done.stdout
    assert "Theorem 2.1" not in done.stdout
    assert done.stderr == ""


def test_everything_is_shown_on_request(boundcheck: Command) -> None:
    done = boundcheck("check", "scalar", "--t", "20", "--verbose")
    for words in (
        "itd-local",
        "why bound itd (Theorem 2.1) is ",
        "guaranteed",
        "best proved bound/error",
        "a posteriori, from a better solution",
    ):
        assert words in done.stdout


def test_json_is_all_there_is_on_stdout(boundcheck: Command) -> None:
    done = boundcheck("check", "scalar", "--t", "5", "--method", "aid-fp:2", "--bound", "aid-fp", "--json")
    content = json.loads(done.stdout)
    assert [c["method"] for c in content["curves"]] == ["aid-fp:2"]
    assert list(content["curves"][0]["bounds"]) == ["aid-fp"]
    assert content["verdict"] == "holds"


def test_a_violation_is_exit_code_1_and_names_the_link(boundcheck: Command, files: Path) -> None:
    done = boundcheck("check", f"{files / 'wrong.py'}:problem", "--t", "20", "--method", "itd", "--verbose")
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert "violated: the error is above " in text
    assert "itd-local on itd: error/bound = " in text
    assert "the proof breaks at 'derivative of the iterate', which uses nu_1, nu_2" in text
    assert "BROKEN" in text


def test_where_no_theorem_speaks_it_is_exit_code_3(boundcheck: Command, files: Path) -> None:
    done = boundcheck("check", f"{files / 'expansive.py'}:problem", "--t", "5", "--method", "itd")
    assert done.returncode == 3
    assert "no bound applies" in done.stdout
    assert "q = 1.5 ≥ 1" in done.stdout
    done = boundcheck("plan", f"{files / 'expansive.py'}:problem", "--eps", "1e-3", "--method", "itd")
    assert done.returncode == 3
    text = " ".join(done.stdout.split())
    assert "No t and k are known for an error of at most 0.001" in text
    assert "No guarantee for itd: q = 1.5 ≥ 1" in text
    assert "No run of itd reached it: it diverges" in text
    assert "method" not in text  # no empty table


def test_files_are_written(boundcheck: Command, tmp_path: Path) -> None:
    done = boundcheck("check", "scalar", "--t", "10", "--method", "itd", "--out", str(tmp_path / "out"))
    assert done.returncode == 0
    assert (tmp_path / "out" / "report.json").exists()
    assert (tmp_path / "out" / "errors.svg").exists()
    assert (tmp_path / "out" / "trace-itd.png").exists()


def test_the_proofs_are_shown_at_the_t_that_is_asked_for(boundcheck: Command) -> None:
    done = boundcheck("check", "scalar", "--t", "20", "--method", "itd", "--trace-t", "7")
    assert "why bound itd (Theorem 2.1) is 1.562 times the error of method itd at t = 7" in done.stdout
    late = boundcheck("check", "scalar", "--t", "1000", "--method", "itd", "--trace-t", "1000")
    assert "t = 1000 is at the floor or was not traced; this is the nearest t" in late.stdout


@pytest.mark.parametrize("columns", [60, 80])
def test_a_narrow_terminal_shows_every_name_and_rate(
    boundcheck: Command, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = boundcheck("check", "scalar", "--t", "20", "--verbose").stdout.splitlines()
    assert all(len(line) <= columns for line in lines)
    (row,) = (line for line in lines if "aid-cg-chebyshev" in line)
    assert float(row.split()[-1]) == pytest.approx(0.9, abs=1e-3)


def test_a_place_that_cannot_be_written_to_is_told_before_the_run(
    boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("mine")
    monkeypatch.setattr("boundcheck.compare.check.check", None)  # it is not reached
    for place in ("taken", "taken/below"):
        done = boundcheck("check", "scalar", "--out", str(tmp_path / place))
        assert done.returncode == 2
        assert "cannot be made" in done.stderr
        assert "is a file; give another directory" in done.stderr


def test_the_first_screen_of_a_plan(boundcheck: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = boundcheck("plan", "scalar", "--rtol", "0.01")
    assert done.returncode == 0, done.stderr
    lines, text = done.stdout.splitlines(), " ".join(done.stdout.split())
    assert "For an error of at most 1 (1% of ‖∇f‖): aid-cg with t =" in text
    assert "A run needed t =" in text
    assert "proved by itd-local" in text
    assert len(lines) <= 40
    assert max(len(line) for line in lines) <= 80
    everything = boundcheck("plan", "scalar", "--rtol", "0.01", "-v", "--no-run").stdout
    assert "t and k required by each bound" in everything
    assert "t and k required by each bound" not in done.stdout
    content = json.loads(boundcheck("plan", "scalar", "--eps", "1e-2", "--json", "--no-run").stdout)
    assert [g["method"] for g in content["guarantees"]] == ["itd", "aid-fp", "aid-cg"]
    assert content["guarantees"][0]["error"] is None
    assert content["rtol"] == pytest.approx(1e-2 / content["gradient_norm"])


def test_a_plan_in_little_memory_says_how_much_is_enough(boundcheck: Command) -> None:
    asked = ("plan", "scalar", "--rtol", "0.01", "--method", "itd", "--memory")
    words = " ".join(boundcheck(*asked, "100").stdout.split())
    assert re.search(r"itd was not run: memory must be at least .*give memory=\d+ \(--memory [\d.]+kB\)\.", words)
    assert "A run needed t =" in " ".join(boundcheck(*asked, "1e9").stdout.split())


UNPROVED = """
import torch
import boundcheck as bc

problem = bc.Problem.from_map(
    lambda w, lam: 1.2 * torch.tanh(w) + lam, lambda w, lam: (w * w).sum(),
    torch.full((1,), 0.1).double(), torch.full((1,), 0.5).double(),
)
"""


def test_a_plan_without_a_bound_is_an_estimate(boundcheck: Command, tmp_path: Path) -> None:
    """It contracts at w* and not on the ball."""
    (tmp_path / "own.py").write_text(UNPROVED)
    done = boundcheck("plan", f"{tmp_path / 'own.py'}:problem", "--eps", "1e-3", "--method", "itd")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "was enough in a run (estimated; nothing is proved)" in text
    assert "estimated from a run" in text
    assert "No guarantee for itd: q =" in text


def test_the_seed_draws_lam_of_a_finished_problem(boundcheck: Command, tmp_path: Path) -> None:
    """And goes to the function that makes a problem only where that takes one."""
    (tmp_path / "mine.py").write_text(
        "import torch, boundcheck as bc\n"
        "one = torch.ones(1, dtype=torch.float64)\n"
        "def make():\n"
        "    phi = lambda w, lam: 0.5 * w + lam\n"
        "    sampler = lambda generator: torch.rand(1, generator=generator)\n"
        "    return bc.Problem.from_map(phi, lambda w, lam: (w**2).sum(), one, one, sampler=sampler)\n"
        "problem = make()\n"
        "def seeded(seed):\n"
        "    return bc.Problem.from_map(problem.phi_at, problem.outer_at, seed * one, one, sampler=problem.sampler)\n"
    )
    found = {}
    for name in ("problem", "make", "seeded"):
        for seed in ("1", "2"):
            run = ("check", f"{tmp_path / 'mine.py'}:{name}", "--t", "3", "--method", "itd", "--samples", "3")
            done = boundcheck(*run, "--seed", seed, "--json")
            assert done.stderr == ""
            found[name, seed] = json.loads(done.stdout)["curves"][0]["error"]
    assert found["problem", "1"] == found["make", "1"] != found["problem", "2"]
    assert found["seeded", "1"] == found["problem", "1"]
    assert found["seeded", "2"] != found["problem", "2"]
    done = boundcheck("check", f"{tmp_path / 'mine.py'}:make", "--dtype", "float32")
    assert done.returncode == 2
    assert done.stderr == "boundcheck: mine.py:make takes no dtype; let make take dtype= to use --dtype\n"

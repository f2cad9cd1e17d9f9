"""Options that several commands share, and how a command ends that was stopped or that broke."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bad_problems import TEXT
from command import Command

import boundcheck as bc
from boundcheck.cli.check_command import fewer_steps
from boundcheck.cli.options import asked_memory
from boundcheck.problems.parts.option_text import options_from_text

SCALAR = ("check", "scalar", "--t", "3", "--method", "itd", "--bound", "itd-local", "--json")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4 * 10**9),
        ("512MB", 512 * 10**6),
        ("1.5 GiB", 3 * 2**29),
        ("1000000", 10**6),
        (".5kb", 500),
        ("", 2**30),
    ],
)
def test_memory_in_words(text: str, size: int) -> None:
    assert asked_memory(text) == size


def test_the_least_memory_that_a_message_names_is_enough(boundcheck: Command) -> None:
    long = ("check", "scalar", "--t", "2000", "--method", "itd", "--bound", "itd-local", "--json")
    refused = boundcheck(*long, "--memory", "1kB")
    assert refused.returncode == 2
    match = re.search(r"--memory must be at least .* \(got 1kB\).*\(--memory (\S+)\), or a smaller t", refused.stderr)
    assert match is not None, refused.stderr
    assert boundcheck(*long, "--memory", match[1]).returncode == 0


def test_options_of_a_problem(boundcheck: Command, tmp_path: Path) -> None:
    done = boundcheck(*SCALAR, "--set-problem", "q=0.25", "--set-problem", "kind=linear")
    assert json.loads(done.stdout)["constants"]["q"]["value"] == 0.25
    (tmp_path / "mine.py").write_text(TEXT + "\n\ndef scaled(scale=0.5):\n    return bc.Problem.from_map(\n"
        "        lambda w, lam: scale * w + lam, outer, W, L)\n")  # fmt: skip
    done = boundcheck("constants", f"{tmp_path / 'mine.py'}:scaled", "--set-problem", "scale=0.25", "--json")
    assert json.loads(done.stdout)["constants"]["q"]["value"] == pytest.approx(0.25)


def test_text_becomes_what_the_signature_says() -> None:
    def make(  # type: ignore[no-untyped-def]
        plain,
        flag=False,
        size: int = 1,
        scale: float | None = None,
        kind: str | None = "a",
        own: Absent = 2,  # noqa: F821
    ):
        raise AssertionError("it is not called")

    texts = ["plain=2", "flag=TRUE", "size=3", "scale=none", "kind=3", "own=5"]
    assert options_from_text(texts, make, "make") == {
        "plain": 2, "flag": True, "size": 3, "scale": None, "kind": "3", "own": 5,
    }  # fmt: skip
    assert options_from_text(["scale=1e-3", "plain=text"], make, "make") == {"scale": 1e-3, "plain": "text"}
    assert options_from_text(["any=1"], lambda **rest: None, "make") == {"any": 1}


def test_a_constant_that_the_user_knows_is_used_unless_refuted(boundcheck: Command) -> None:
    content = json.loads(boundcheck(*SCALAR, "--know", "hat_rho_1=0.5", "--know", "nu_2=1e-9").stdout)["constants"]
    assert (content["hat_rho_1"]["value"], content["hat_rho_1"]["side"]) == (0.5, "upper")
    assert content["nu_2"]["value"] == 1  # ∂₂Φ = w


@pytest.mark.parametrize("command", [("check", "scalar"), ("page", "scalar", "--out", "page.html")])
def test_ctrl_c_says_that_nothing_was_written(
    boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def stop(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("boundcheck.compare.check.check", stop)
    done = boundcheck(*command)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "boundcheck: stopped; nothing was written"
    assert not list(tmp_path.iterdir())


def test_ctrl_c_names_what_was_written(boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("boundcheck.views.terminal.show_hypergradient.show", stop)
    out = tmp_path / "g.npy"
    done = boundcheck("hypergradient", "scalar", "--rtol", "0.1", "--out", str(out))
    assert done.returncode == 130
    assert done.stderr.strip() == f"boundcheck: stopped; {out} was written"
    assert out.exists()


def test_a_search_that_is_stopped_shows_its_best(boundcheck: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def stop(step: int) -> None:
        calls.append(step)
        if len(calls) > 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("boundcheck.worst_case.search._forward", lambda tell, before, total, step: stop(step))
    done = boundcheck("worst", "itd", "--t", "2", "--dim", "1", "--quick")
    assert done.returncode == 130
    assert "interrupted: this is the best so far" in done.stdout
    assert done.stderr.strip() == "boundcheck: stopped early; the best instance so far is shown"
    calls.extend(range(9))  # now it stops before anything was tried
    done = boundcheck("worst", "itd", "--t", "2", "--dim", "1", "--quick")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "boundcheck: stopped; nothing was written"


def test_a_fault_of_boundcheck_is_no_violation(boundcheck: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("boundcheck.compare.check.check", broken)
    done = boundcheck("check", "scalar")
    assert done.returncode == 70
    assert done.stderr.startswith("boundcheck: an error inside boundcheck: RuntimeError: two lines; please report it")
    assert done.stderr.count("\n") == 1
    monkeypatch.setenv("BOUNDCHECK_TRACEBACK", "1")
    monkeypatch.setattr("sys.argv", ["boundcheck", "check", "scalar"])
    with pytest.raises(RuntimeError):
        bc.cli.main()  # type: ignore[attr-defined]


def test_advice_for_what_takes_days() -> None:
    assert fewer_steps(1000)(6000.0) == "use fewer steps, such as --t 100, or fewer methods (--method)"

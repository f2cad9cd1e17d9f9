"""Every code block of README, CONTRIBUTING and docs/ is run, or says why not and is at least parsed."""

from __future__ import annotations

import io
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import command as in_process
import pages
import pytest
from pages import PAGES, QUIET, ROOT, SHELL, Block, blocks
from typer.main import get_command

import boundcheck as bc
from boundcheck.cli.app import app
from boundcheck.paper import names as experiments
from boundcheck.problems import CATALOGUE
from boundcheck.worst_case.target import CLAIMS

LIMIT = 300  # seconds for one block of Python or one command; the longest take about ten on an idle core
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@contextmanager
def within(seconds: int, what: str) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"{what} took more than {seconds} s; make it smaller, or mark it as not run")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@EVERY_PAGE
def test_blocks_run(
    page: Path, boundcheck: in_process.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # as in the output that pages show
    shutil.copy(ROOT / "examples" / "own_problem.py", tmp_path / "mine.py")
    namespace: dict[str, Any] = {"__name__": "page"}
    printed: list[str] = []
    for block in blocks(page):
        if block.language == "text" and "lower-level steps" not in block.text:  # these are timings
            missing = [line for line in block.text.splitlines() if "…" not in line and not is_among(line, printed)]
            assert missing == [], f"{block.where} is not what was printed"
        if block.excuse is not None or block.language in QUIET:
            continue
        if block.language == "python":
            if block.title:
                Path(block.title).write_text(block.text, encoding="utf-8")
            with within(LIMIT, block.where), redirect_stdout(io.StringIO()) as out:
                exec(compile(block.text, block.where, "exec"), namespace)
            printed += out.getvalue().split()
            continue
        for command in pages.commands(block):
            program, *arguments = command.words
            assert program == "boundcheck", f"{block.where}: {program} is not run by tests; mark the block"
            with monkeypatch.context() as set_for_it, within(LIMIT, f"{block.where}: {' '.join(command.words)}"):
                for name, value in command.settings.items():
                    set_for_it.setenv(name, value)
                run = boundcheck(*arguments)
            assert run.returncode == command.code, f"{block.where}: {' '.join(command.words)}: {run.stderr}"
            printed += run.stdout.split()


def is_among(line: str, printed: list[str]) -> bool:
    """Whether these words were printed one after the other; numbers may differ by 2 %, as between machines."""
    words = line.split()
    places = range(len(printed) - len(words) + 1)
    return any(all(same(*pair) for pair in zip(words, printed[i:], strict=False)) for i in places)


def same(told: str, found: str) -> bool:
    try:
        return float(told.strip("×%,")) == pytest.approx(float(found.strip("×%,")), rel=0.02)
    except ValueError:
        return told == found


def test_output_of_another_day_is_seen() -> None:
    printed = ["of", "24", "bounds", "that", "apply", "norms", "of", "products", "941.7", "×1.306", "12", "%"]
    assert is_among("norms of products  941.6  ×1.31  12 %", printed)
    assert not is_among("norms of products  941.6  ×1.35  12 %", printed)
    assert not is_among("of 23 bounds that apply", printed)


@pytest.mark.parametrize("page", [ROOT / "docs" / "index.md", ROOT / "docs" / "comparison.md"], ids=lambda p: p.name)
def test_the_number_of_bounds(page: Path) -> None:
    assert re.findall(r"(\d+) bounds", page.read_text(encoding="utf-8")) == [str(len(bc.bounds))]


@EVERY_PAGE
def test_blocks_have_a_language_and_excuses_a_reason(page: Path) -> None:
    found = blocks(page)
    assert len(found) * 2 == len(re.findall(r"^ *```", page.read_text(encoding="utf-8"), flags=re.M)), "a stray fence"
    for block in found:
        assert block.language in ("python", *SHELL, *QUIET), f"{block.where}: {block.language!r} is not known"
        if block.excuse is not None:
            assert len(block.excuse) >= 5, f"{block.where}: say why it is not run"
            assert block.language not in QUIET, f"{block.where}: output is never run"


@EVERY_PAGE
def test_what_is_not_run_could_be(page: Path) -> None:
    for block in blocks(page):
        if block.excuse is None:
            continue
        if block.language == "python":
            compile(block.text, block.where, "exec")
            continue
        found = pages.commands(block)
        assert found, f"{block.where} has no command"
        for command in found:
            could_run(block, *command.words)


def could_run(block: Block, program: str, *arguments: str) -> None:
    """A command that is not run names what exists: options, problems, targets of make, files, extras."""
    where = f"{block.where}: {program} {' '.join(arguments)}"
    if program == "boundcheck":
        name, *rest = arguments
        asked: Any = get_command(app).commands[name]  # type: ignore[attr-defined]
        parsed = asked.make_context(name, rest)
        known = {"paper": experiments(), "worst": [*bc.bounds, *CLAIMS], "bound": [*bc.bounds]}.get(name, [*CATALOGUE])
        about = next(parsed.params[p.name] for p in asked.params if p.param_type_name == "argument")
        assert about in known or ":" in about, where
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
        assert set(arguments) <= set(targets), where
    elif program == "marimo":
        assert arguments[0] in ("edit", "run"), where
        assert (ROOT / arguments[1]).is_file(), where
    elif program == "python":
        assert (ROOT / arguments[0]).is_file(), where
    elif program == "pip":
        assert arguments[0] == "install", where
        extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), flags=re.M)
        for asked in re.findall(r"\[([\w,]+)\]", " ".join(arguments)):
            assert set(asked.split(",")) <= set(extras), where
    else:
        pytest.fail(f"{where}: no test knows what {program} is")


def test_a_broken_option_is_seen() -> None:
    block = Block(ROOT / "README.md", 1, "sh", "", "", "takes long")
    could_run(block, "boundcheck", "check", "lr", "--t", "50")
    with pytest.raises(Exception, match="No such option"):
        could_run(block, "boundcheck", "check", "lr", "--tt", "50")
    with pytest.raises(AssertionError):
        could_run(block, "boundcheck", "paper", "fig7")
    with pytest.raises(AssertionError):
        could_run(block, "make", "coffee")

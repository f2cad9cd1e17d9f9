"""The `boundcheck` command, run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from boundcheck import cli


@dataclass(frozen=True)
class Run:
    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Run]


@pytest.fixture
def boundcheck(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, run in this process."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str) -> Run:
        monkeypatch.setattr(sys, "argv", ["boundcheck", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out = capsys.readouterr()
        return Run(int(stop.value.code or 0), out.out, out.err)

    return run

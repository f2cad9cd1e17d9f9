"""The code blocks of README, CONTRIBUTING and every page under docs/.

A block is run unless `<!-- not run: reason -->` stands directly above it. Blocks of a page run in order, in one
directory and one Python namespace, so later ones may use what earlier ones made. ``python title="mine.py"`` is also
written to that file. Before a page starts, `mine.py` is examples/own_problem.py.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^(?:<!-- not run: (.*?) -->\n)?```([^\n]*)\n(.*?)^```$", flags=re.S | re.M)
SHELL, QUIET = ("sh", "console"), ("text", "json")  # what is run by lines, and what is output


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the title after it, the text, the line it starts on, and why it is not run."""

    page: Path
    line: int
    language: str
    title: str
    text: str
    excuse: str | None

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"


@dataclass(frozen=True)
class Command:
    """A line of a shell block: what is set for it, its words, and the exit code that its comment promises."""

    settings: dict[str, str]
    words: tuple[str, ...]
    code: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    result = []
    for match in FENCE.finditer(text):
        language, _, rest = match[2].partition(" ")
        title = re.fullmatch(r'title="([\w.]+)"', rest)
        assert title or not rest, f"{page.name}: a block starts with {match[2]!r}"
        line = text.count("\n", 0, match.start()) + 1
        result.append(Block(page, line, language, title[1] if title else "", match[3], match[1]))
    return result


def commands(block: Block) -> list[Command]:
    """The command lines of a shell block; in a console they follow a dollar sign, and the rest is output."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [command for line in lines if (command := _command(line))]


def _command(line: str) -> Command | None:
    words = shlex.split(line, comments=True)
    settings = {}
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    promised = re.search(r"#.*exit code (\d)", line)
    return Command(settings, tuple(words), int(promised[1]) if promised else 0) if words else None

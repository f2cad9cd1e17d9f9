"""docs/errata.md has a section for each erratum, and each names just the tests that show it."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "errata.md"


def test_every_erratum_has_a_section_that_names_its_tests() -> None:
    sections = re.split(r"^## (?=\d+\. )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert [int(section.split(".")[0]) for section in sections] == list(range(1, 14))
    sources = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    for number, section in enumerate(sections, start=1):
        named = set(re.findall(r"`(test_erratum_\w+)`", section))
        written = set(re.findall(rf"^def (test_erratum_{number:02}_\w+)", sources, flags=re.MULTILINE))
        assert written
        assert named == written

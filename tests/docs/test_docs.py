"""The documentation cannot go stale: generated pages, anchors, links, examples. Code blocks: test_pages_run.py."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pages import PAGES

import boundcheck as bc
from boundcheck.report.summary import Course, Grade
from boundcheck.report.verdict import Verdict
from boundcheck.theory.citation import BOUNDCHECK
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.rates import RATES

ROOT = Path(__file__).parent.parent.parent


def test_theorems_page_is_fresh() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "generate.py"))["page"]()
    written = (ROOT / "docs" / "theorems.md").read_text(encoding="utf-8")
    assert written == page, "docs/theorems.md is stale; run `make docs`"


def test_the_table_of_operations_is_up_to_date() -> None:
    text = (ROOT / "docs" / "estimating.md").read_text()
    assert runpy.run_path(str(ROOT / "docs" / "operations.py"))["page"](text) == text


def test_every_statement_of_our_own_has_its_proof() -> None:
    anchors = set(re.findall(r'<a id="([^"]+)">', (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")))
    cited = [b.reference for b in bc.bounds.values()] + [r.reference for r in RATES.values()]
    for reference in cited:
        if reference.paper is BOUNDCHECK:
            assert reference.label in anchors, reference


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"\$+[^$]*\$+", "", page.read_text(encoding="utf-8"))  # P_t(H)[E](w_0) is not a link
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_glossary_has_every_word_of_a_first_screen() -> None:
    first_cells = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), flags=re.M)
    known = {word.strip() for cell in first_cells for word in cell.split(",")}
    kinds = {kind.value for kind in BoundKind}
    words = {word.value for words in (Verdict, Grade, Course) for word in words} | {"proved", "probable", "estimated"}
    assert words | {kind.split(",")[0] for kind in kinds} <= known


BANNED = re.compile(
    r"(?<!there )\bis no (?:contraction|bound|proof)\b|\bdearest?\b|does as well as|[Ss]topped at any moment"
    r"|\bmend(?:s|ed)?\b|\bbounds? (?:is|are|was) silent|\bones? speaks?\b|\bso many products\b|\bquicker\b"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_are_in_plain_english(page: Path) -> None:
    assert BANNED.findall(page.read_text(encoding="utf-8")) == []


SCRIPTS = [p for p in sorted((ROOT / "examples").glob("*.py")) if "import marimo" not in p.read_text(encoding="utf-8")]


AS_A_PROCESS = ROOT / "examples" / "own_problem.py"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)  # the lessons: test_notebooks.py
def test_examples_run(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of them in a process of its own, the others in this one, where a warning is an error too."""
    if script == AS_A_PROCESS:
        run = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
        return
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


def test_the_example_in_a_process_is_there() -> None:
    assert AS_A_PROCESS in SCRIPTS


@pytest.mark.parametrize("page", ["index.md", "comparison.md"])
def test_pages_that_count_the_bounds_count_right(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert re.findall(r"(\d+) bounds", text) == [str(len(bc.bounds))]

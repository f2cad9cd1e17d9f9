"""`boundcheck gallery`: one page of many reports that needs no network and breaks on no file."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import Command

import boundcheck as bc

EVIL = "<script>alert('&')</script>"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@cache
def content() -> dict[str, Any]:
    return bc.check("scalar", ["itd"], t=4, proofs=False).to_json()


def write(folder: Path, name: str = "scalar", **changes: Any) -> None:
    folder.mkdir(parents=True)
    report = {**content(), **changes, "problem": {**content()["problem"], "name": name, "dim": len(name)}}
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Three reports, one of them deep below with a figure and a page, and two files that are not."""
    root = tmp_path / "runs & more"
    write(root / "b" / "deep #1", "good")
    (root / "b" / "deep #1" / "errors.png").write_bytes(PNG)
    (root / "b" / "deep #1" / "page.html").write_text("page", encoding="utf-8")
    write(root / "a", EVIL, gradient_norms=[])
    write(root / "c", "a bit slow", seconds=100.0)
    (root / "c" / "errors.png").write_bytes(b"not a picture")
    for name, text in (("d", "{"), ("e", '{"schema": 1}'), ("f", json.dumps({**content(), "curves": []}))):
        (root / name).mkdir()
        (root / name / "report.json").write_text(text, encoding="utf-8")
    write(root / ".boundcheck" / "parts")
    return root


def test_every_report_is_shown_and_every_broken_file_named(reports: Path, boundcheck: Command) -> None:
    run = boundcheck("gallery", str(reports))
    assert run.returncode == 0
    assert run.stdout == f"written to {reports / 'index.html'} (3 reports)\n"
    assert [line.startswith("left out: ") for line in run.stderr.splitlines()] == [True] * 3
    page = (reports / "index.html").read_text(encoding="utf-8")
    assert page.count("<article") == 3
    assert page.index("deep #1") > page.index("&lt;script&gt;alert")
    assert "Could not be read: 3" in page
    assert all(str(reports / name / "report.json").replace("&", "&amp;") in page for name in "def")


def test_nothing_on_the_page_is_markup_of_a_report(reports: Path, boundcheck: Command) -> None:
    boundcheck("gallery", str(reports))
    page = (reports / "index.html").read_text(encoding="utf-8")
    assert EVIL not in page
    assert page.count("<script>") == 1
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=\"?(https?:|//)", page)


def test_figures_are_inside_and_links_are_relative(reports: Path, boundcheck: Command, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    out = tmp_path / "elsewhere" / "all.html"
    assert boundcheck("gallery", str(reports), "--out", str(out)).returncode == 0
    page = out.read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 1
    assert base64.b64encode(PNG).decode() in page
    assert 'href="../runs%20%26%20more/b/deep%20%231/page.html"' in page
    assert 'href="../runs%20%26%20more/c/report.json"' in page
    assert page.count("interactive page") == 1


def test_an_empty_folder_has_a_page_that_says_so(tmp_path: Path, boundcheck: Command) -> None:
    run = boundcheck("gallery", str(tmp_path))
    assert run.returncode == 0
    assert "no report.json below" in run.stderr
    assert "There is no report.json below" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_json_says_what_was_written(reports: Path, boundcheck: Command) -> None:
    result = json.loads(boundcheck("gallery", str(reports), "--json").stdout)
    assert (result["schema"], result["reports"], len(result["broken"])) == (1, 3, 3)


def test_a_page_of_someone_else_is_not_overwritten(reports: Path, boundcheck: Command) -> None:
    mine = reports / "index.html"
    mine.write_text("my own page", encoding="utf-8")
    run = boundcheck("gallery", str(reports))
    assert run.returncode == 2
    assert "is not a page of boundcheck gallery; give another file" in run.stderr
    assert mine.read_text(encoding="utf-8") == "my own page"
    mine.unlink()
    assert boundcheck("gallery", str(reports)).returncode == 0
    assert boundcheck("gallery", str(reports)).returncode == 0  # its own it writes again


@pytest.mark.parametrize(("arguments", "message"), [(["nowhere"], "nowhere is not a folder")])
def test_what_is_not_there_is_one_line(arguments: list[str], message: str, boundcheck: Command) -> None:
    run = boundcheck("gallery", *arguments)
    assert run.returncode == 2
    assert message in run.stderr
    assert run.stderr.count("\n") == 1


def test_a_gallery_beside_a_report_is_not_its_page(tmp_path: Path, boundcheck: Command) -> None:
    write(tmp_path / "one")
    boundcheck("gallery", str(tmp_path / "one"))
    boundcheck("gallery", str(tmp_path))
    assert "interactive page" not in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_sorted_and_filtered_in_a_browser(reports: Path, boundcheck: Command, browser: Any) -> None:
    boundcheck("gallery", str(reports))
    page = browser.new_page(viewport={"width": 390, "height": 844})
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(f"a report ran a script: {dialog.message}"))
    page.goto((reports / "index.html").as_uri())
    names = page.locator("article:visible h2")
    assert names.all_inner_texts() == [EVIL, "good", "a bit slow"]
    page.select_option("#order", "seconds")
    assert names.first.inner_text() == "a bit slow"
    page.select_option("#order", "size")
    assert names.first.inner_text() == EVIL
    page.fill("#filter", "SLOW")
    assert names.all_inner_texts() == ["a bit slow"]
    assert page.locator("#count").inner_text() == "1 of 3 reports"
    page.fill("#filter", "")
    page.locator(".figure").click()
    assert page.locator(".figure.large").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    page.close()

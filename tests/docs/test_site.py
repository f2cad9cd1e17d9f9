"""The documentation site: it builds without a warning, asks nothing of the network, and shows what GitHub shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from pages import ROOT

DOCS = ROOT / "docs"
SHOWN = sorted(path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md"))
COUNTED = ("em", "strong", "code", "pre", "ul", "ol", "li", "th", "td", "img", "h1", "h2", "h3", "h4")
BLOCK = re.compile(r"(^```.*?^```$)", flags=re.S | re.M)
MATH = re.compile(r"\$\$.*?\$\$|\$[^$]*?\$", flags=re.S)
LOADS = re.compile(r"""<(?:script|img|source|iframe)[^>]*\ssrc=["']?([^"'\s>]+)|<link[^>]*\shref=["']?([^"'\s>]+)""")
LAYOUT = 50  # tenths of a second in which a page is laid out
LEFT = """() => {
  const text = document.querySelector("article").cloneNode(true);
  text.querySelectorAll("code, pre, .katex").forEach(element => element.remove());
  return text.textContent.match(/.{0,30}(\\$|\\\\\\(|\\\\\\[).{0,30}/g) || [];
}"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed; install the extra docs")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed; install the extra docs")
    made = tmp_path_factory.mktemp("site")
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(made)]
    run = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert [line for line in (run.stdout + run.stderr).splitlines() if not line.startswith("INFO ")] == []
    return made


def test_every_page_is_there_and_every_public_name_has_its_place(site: Path) -> None:
    assert [page for page in SHOWN if not (site / page).is_file()] == []
    reference = (site / "reference.html").read_text(encoding="utf-8")
    import boundcheck

    names = set(boundcheck.__all__) - {"__version__"}
    assert {name for name in names if f'id="boundcheck.{name}"' not in reference} == set()


def test_nothing_is_loaded_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = [a or b for a, b in LOADS.findall(page.read_text(encoding="utf-8"))]
        assert loaded
        assert [url for url in loaded if url.startswith(("http:", "https:", "//"))] == [], page.name
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']+", text) == [], style.name
        for file in re.findall(r"url\(([\w./-]+\.woff2)\)", text):
            assert (style.parent / file).is_file(), f"{style.name} asks for {file}"


class Elements(HTMLParser):
    """How many elements of each kind there are."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in COUNTED:
            self.found[tag] += 1


def test_the_site_shows_what_github_shows(site: Path) -> None:
    """Lists, tables, emphasis: MkDocs reads Markdown in its own way, and w*, or a list without a blank line, differ."""
    github = MarkdownIt("commonmark").enable("table")
    for page in SHOWN:
        if page.name == "reference.html":  # generated
            continue
        parts = BLOCK.split((DOCS / page).with_suffix(".md").read_text(encoding="utf-8"))
        without_math = "".join(part if i % 2 else MATH.sub("formula", part) for i, part in enumerate(parts))
        article = re.search(r"<article.*?</article>", (site / page).read_text(encoding="utf-8"), flags=re.S)
        assert article
        assert Elements(article[0]).found == Elements(github.render(without_math)).found, page


def overflow(tab: Any) -> int:
    """How many points a page is wider than its window, once it is laid out: a new width takes a moment."""
    for _ in range(LAYOUT):
        over = int(tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
        if over <= 0:
            break
        tab.wait_for_timeout(100)
    return over


def test_formulas_are_typeset_and_pages_fit_the_screen(site: Path, browser: Any) -> None:
    output: list[str] = []
    asked: list[str] = []
    typeset = 0
    tab = browser.new_page()
    tab.on("console", lambda message: output.append(message.text))
    tab.on("pageerror", lambda error: output.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("requestfailed", lambda request: output.append(f"failed: {request.url}"))
    for page in SHOWN:
        tab.goto((site / page).as_uri())
        marked = (site / page).read_text(encoding="utf-8").count('class="arithmatex"')
        typeset += marked
        assert tab.evaluate("document.querySelectorAll('.arithmatex .katex-html').length") == marked, page
        assert tab.evaluate("document.querySelectorAll('.katex-error').length") == 0, page
        assert tab.evaluate(LEFT) == [], page
        for width in (390, 1366):
            tab.set_viewport_size({"width": width, "height": 800})
            assert overflow(tab) <= 0, f"{page} is wider than {width} points"
    tab.close()
    assert typeset > 1000
    assert output == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_search_works_from_disk(site: Path, browser: Any) -> None:
    tab = browser.new_page(viewport={"width": 1366, "height": 800})
    tab.goto((site / "howto" / "gpu.html").as_uri())
    tab.click(".md-search__input")
    tab.keyboard.type("checkpoint")
    tab.wait_for_selector(".md-search-result__item a")
    result = [link.get_attribute("href") for link in tab.locator(".md-search-result__item a").all()]
    tab.close()
    assert any("howto/big_problems.html" in link for link in result), result

"""Pages as files, and visits to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small import small

import boundcheck as bc
from boundcheck.views import page


@pytest.fixture(scope="session")
def report() -> bc.Report:
    return bc.check(small("lr"), ["itd", "aid-fp", "aid-cg:10"], t=30)


@pytest.fixture(scope="session")
def theory_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page.write(tmp_path_factory.mktemp("page") / "theory.html", t=100)


@pytest.fixture(scope="session")
def report_file(tmp_path_factory: pytest.TempPathFactory, report: bc.Report) -> Path:
    return page.write(tmp_path_factory.mktemp("page") / "report.html", report)


Open = Callable[..., Any]


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Opens a file; at the end there was no message on the console and nothing else was asked for."""
    output: list[str] = []
    asked: list[str] = []
    opened: list[Any] = []

    def run(file: Path, width: int = 1366, height: int = 768, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        tab = context.new_page()
        opened.append(context)
        tab.on("console", lambda message: output.append(message.text))
        tab.on("pageerror", lambda error: output.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(file.as_uri())
        tab.wait_for_selector("#chart canvas")
        return tab

    yield run
    for context in opened:
        context.close()
    assert output == []
    assert [url[:60] for url in asked if not url.startswith(("file:", "data:"))] == []
    assert sum(url.startswith("file:") for url in asked) == len(opened)

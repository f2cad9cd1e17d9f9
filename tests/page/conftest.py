"""Pages as files, and a real browser that looks at them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small import small

import boundcheck as bc
from boundcheck import page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def report() -> bc.Report:
    return bc.check(small("lr"), ["itd", "aid-fp", "aid-cg:10"], t=30)


@pytest.fixture(scope="session")
def theory_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page.write(tmp_path_factory.mktemp("page") / "theory.html", t=100)


@pytest.fixture(scope="session")
def report_file(tmp_path_factory: pytest.TempPathFactory, report: bc.Report) -> Path:
    return page.write(tmp_path_factory.mktemp("page") / "report.html", report)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium by playwright, which downloads nothing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; install the extra dev")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser ({', '.join(BROWSERS)}) is on PATH; on Debian: apt-get install chromium")
    with api.sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        except api.Error as why:
            pytest.skip(f"{found} does not start: {str(why).splitlines()[0]}")
        yield started
        started.close()


Open = Callable[..., Any]


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Opens a file; at the end there was no message on the console and nothing else was asked for."""
    said: list[str] = []
    asked: list[str] = []
    opened: list[Any] = []

    def run(file: Path, width: int = 1366, height: int = 768, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        tab = context.new_page()
        opened.append(context)
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(file.as_uri())
        tab.wait_for_selector("#chart canvas")
        return tab

    yield run
    for context in opened:
        context.close()
    assert said == []
    assert [url[:60] for url in asked if not url.startswith(("file:", "data:"))] == []
    assert sum(url.startswith("file:") for url in asked) == len(opened)

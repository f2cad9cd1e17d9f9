"""A real browser for the pages and the site."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium by playwright, which downloads nothing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; install the extra dev")
    result = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if result is None:
        pytest.skip(f"no browser ({', '.join(BROWSERS)}) is on PATH; on Debian: apt-get install chromium")
    with api.sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=result, args=["--no-sandbox", "--disable-gpu"])
        except api.Error as why:
            pytest.skip(f"{result} does not start: {str(why).splitlines()[0]}")
        yield started
        started.close()

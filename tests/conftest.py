"""One thread for each worker; property tests without a time limit, with the same examples every time in CI.

Also a place without data sets.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chromium import browser  # noqa: F401
from command import boundcheck  # noqa: F401
from hypothesis import settings

from boundcheck.problems.parts import dataset_files

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch is imported: workers already fill the cores
    os.environ.setdefault(name, "1")

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for BOUNDCHECK_DATA and one for the cache, both without files, and no permission to download."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("BOUNDCHECK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(dataset_files, "user_cache", lambda: tmp_path / "cache" / "boundcheck")
    monkeypatch.delenv("BOUNDCHECK_DOWNLOAD", raising=False)
    return tmp_path

"""One thread for each worker; property tests without a time limit, with the same examples every time in CI.

Also a place without data sets.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
import torch
from chromium import browser  # noqa: F401
from command import boundcheck  # noqa: F401
from hypothesis import settings

from boundcheck.problems.parts import dataset_files

gc.disable()  # until all tests are collected: nothing that is loaded before is garbage
torch.set_num_threads(1)  # workers already fill the cores
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # and those of the processes that tests start
    os.environ.setdefault(name, "1")

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through libraries and tests again and again: a seventh of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.fixture
def without_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """No function can be recorded: what is left are estimates, and what structure and claims prove."""
    from boundcheck.numerics.program.recorded_program import Declined

    def declines(*arguments: object, **options: object) -> None:
        raise Declined("the test records nothing")

    from boundcheck.numerics.bilevel import default_step
    from boundcheck.numerics.estimate import recorded_functions, residual_balls

    monkeypatch.setattr(recorded_functions, "capture", declines)
    monkeypatch.setattr(residual_balls, "capture", declines)
    monkeypatch.setattr(default_step, "capture", declines)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for BOUNDCHECK_DATA and one for the cache, both without files, and no permission to download."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("BOUNDCHECK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(dataset_files, "user_cache", lambda: tmp_path / "cache" / "boundcheck")
    monkeypatch.delenv("BOUNDCHECK_DOWNLOAD", raising=False)
    return tmp_path

"""One thread for each worker; property tests without a time limit, with the same examples every time in CI."""

from __future__ import annotations

import os

from hypothesis import settings

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch is imported: workers already fill the cores
    os.environ.setdefault(name, "1")

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

"""Files of the real data sets: those that are there, and those that tests put there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from boundcheck.problems.parts import dataset_files

PARKINSONS = "parkinsons/parkinsons.data"
GIVEN = os.environ.get("BOUNDCHECK_DATA", "")


def needs(*starts: str) -> pytest.MarkDecorator:
    """Skips a test unless every known file whose name starts like one of these is in the folder BOUNDCHECK_DATA."""
    names = [name for name in dataset_files.SHA256 if name.startswith(starts)]
    there = bool(GIVEN) and all((Path(GIVEN) / name).is_file() for name in names)
    return pytest.mark.skipif(not there, reason=f"BOUNDCHECK_DATA lacks {', '.join(starts)}")


def put(path: Path, contents: bytes) -> str:
    """Writes a file and returns its checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)
    return hashlib.sha256(contents).hexdigest()

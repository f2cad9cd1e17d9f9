"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from boundcheck.errors import InputError


def write_whole(path: Path, contents: bytes, *, durable: bool = False) -> Path:
    """What stands at `path` is never half a file, and nothing else is left behind; `durable`: not after a crash either.

    Then the file is on the disk, and so is its name, before this returns.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with part.open("wb") as file:
            file.write(contents)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path)
        if durable and hasattr(os, "O_DIRECTORY"):  # where a folder can be opened
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        raise InputError(f"path = {str(path)!r} cannot be written ({error.strerror}); give another path") from error
    finally:
        part.unlink(missing_ok=True)
    return path


def refuse_unless_writable(directory: str) -> None:
    """Before anything is run: can files be written there?"""
    place = Path(directory)
    there = next(path for path in (place, *place.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "may not be written to" if there.is_dir() else "is a file"
        raise InputError(f"--out {place} cannot be made: {there} {why}; give another directory")

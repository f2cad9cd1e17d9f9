"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from boundcheck.errors import InputError


def write_whole(path: Path, contents: bytes) -> Path:
    """What stands at `path` is never half a file, and nothing else is left behind."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        part.write_bytes(contents)
        os.replace(part, path)
    except OSError as error:
        raise InputError(f"path = {str(path)!r} cannot be written ({error.strerror}); give another path") from error
    finally:
        part.unlink(missing_ok=True)
    return path

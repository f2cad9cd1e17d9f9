"""Parts that the JSON files of all reports share: null for numbers that are not finite, and reading a file."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from boundcheck.errors import InputError
from boundcheck.json_numbers import SCHEMA

FILE = "report.json"
STOCHASTIC = "stochastic"  # the "kind" of a report of minibatch runs; a report of `check` has none
LOADERS = {None: ("Report", "check"), STOCHASTIC: ("StochasticReport", "check --method sid")}


def as_lists(array: np.ndarray) -> Any:
    """Convert an array to nested lists, with None for NaN and infinity."""
    if array.ndim > 1:
        return [as_lists(row) for row in array]
    return [x if math.isfinite(x) else None for x in array.tolist()]


def as_array(content: Any, missing: float) -> np.ndarray:
    """Convert nested lists to an array, with `missing` for None."""
    result = np.array(content, dtype=float)  # None becomes NaN
    return np.where(np.isnan(result), missing, result)


def read(path: str | os.PathLike[str]) -> tuple[Path, dict[str, Any]]:
    """Read a report of any kind from its file or its directory, and return the path and the content of the file."""
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as why:
        raise InputError(f"{file} cannot be read: {why.strerror}; give a {FILE} or the directory of one") from None
    except ValueError as why:
        raise InputError(f"{file} is not JSON: {why}; write it again with boundcheck check --out") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        schema = content.get("schema") if isinstance(content, dict) else None
        raise InputError(f"{file} has schema {schema!r}, not {SCHEMA}; write it again with this version")
    return file, content


def read_kind(path: str | os.PathLike[str], kind: str | None) -> tuple[Path, dict[str, Any]]:
    """Read a report of one kind; for another kind, the error names its loader."""
    file, content = read(path)
    has = content.get("kind")
    if has != kind:
        loader, command = LOADERS.get(has if isinstance(has, str | None) else "", ("", ""))
        if not loader:
            raise InputError(f"{file} has kind {has!r}, which this version does not know; write it again")
        raise InputError(f"{file} is a report of boundcheck {command}; read it with {loader}.load")
    return file, content


def not_a_report(file: Path, kind: str | None, why: Exception) -> InputError:
    """The error for a file that is not a report of this kind, because a part is missing or wrong."""
    return InputError(f"{file} is not a report of boundcheck {LOADERS[kind][1]} ({why!r}); write it again")

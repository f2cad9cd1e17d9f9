"""Is what lies in a folder whole? Every file is read by what reads its kind."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib.image
import torch


def read(path: Path) -> None:
    """Raises if the file is not all of what its name says."""
    if path.suffix == ".json":
        json.loads(path.read_text(encoding="utf-8"))
    elif path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        assert rows, path
        assert {len(row) for row in rows} == {len(rows[0])}, path
        assert path.read_bytes().endswith(b"\n"), path
    elif path.suffix == ".png":
        assert matplotlib.image.imread(path).size, path
    elif path.suffix == ".svg":
        ElementTree.parse(path)
    elif path.suffix in (".result", ".state"):
        torch.load(path, weights_only=True)
    elif path.suffix == ".md":
        assert path.read_bytes().endswith(b"\n"), path
    else:
        raise AssertionError(f"{path} is of no kind that is written")


def visible(folder: Path) -> list[str]:
    """Read all files that are not hidden, in this folder and below; their names."""
    result = [path for path in folder.rglob("*") if path.is_file() and not _hidden(path.relative_to(folder))]
    for path in result:
        read(path)
    return sorted(str(path.relative_to(folder)) for path in result)


def leftovers(folder: Path) -> list[str]:
    """What is hidden there."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*"))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)

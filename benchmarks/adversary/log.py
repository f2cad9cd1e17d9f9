"""The log of a long run: a line of JSON for each chunk of problems, so that what is done is never done again.

Lines are appended whole, so several runs may share a file, and the files of several machines may be put together with
`cat`. A line that a crash cut short is left out, and its problems count as not done.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boundcheck

from .tally import Tally


@dataclass(frozen=True)
class Chunk:
    """Problems `first` … `first + tally.problems − 1` of a seed, with this code."""

    seed: int
    first: int
    code: str
    tally: Any  # with `problems` and `to_json`

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.tally.problems)


def code() -> str:
    """A digest of the library and of the adversary, to tell which of them a chunk is about."""
    digest = hashlib.sha256()
    for folder in (Path(boundcheck.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def append(path: Path, chunk: Chunk) -> None:
    """One line, in one write, on the disk before this returns."""
    fields = {"seed": chunk.seed, "first": chunk.first, "code": chunk.code, **chunk.tally.to_json()}
    line = json.dumps(fields, ensure_ascii=False) + "\n"
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(file).st_size
        cut = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # a crash left half a line
        os.write(file, (("\n" if cut else "") + line).encode())
        os.fsync(file)
    finally:
        os.close(file)


def read(path: Path, tally: Any = Tally) -> list[Chunk]:
    """All whole lines, with tallies of that type; a chunk that is there twice counts once."""
    chunks: list[Chunk] = []
    done: set[tuple[int, int]] = set()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            fields = json.loads(line)
            chunk = Chunk(fields["seed"], fields["first"], fields["code"], tally.from_json(fields))
        except (ValueError, KeyError, TypeError):
            continue
        numbers = {(chunk.seed, number) for number in chunk.numbers}
        if done.isdisjoint(numbers):
            done |= numbers
            chunks.append(chunk)
    return chunks


def left(chunks: Sequence[Chunk], numbers: range, seed: int, size: int) -> list[range]:
    """What of these numbers no chunk has, in pieces of at most `size`."""
    done = {number for chunk in chunks if chunk.seed == seed for number in chunk.numbers}
    pieces: list[range] = []
    for number in numbers:
        if number in done:
            continue
        if pieces and pieces[-1].stop == number and len(pieces[-1]) < size:
            pieces[-1] = range(pieces[-1].start, number + 1)
        else:
            pieces.append(range(number, number + 1))
    return pieces

"""Write results to the disk: whole files, in whole sets, by one process at a time.

Who writes into a folder (or one file) first claims it: a hidden work folder beside the results holds a lock of the
operating system and the files that are not finished yet. The lock goes when its process ends, however that ends, so
the next process sees that the owner is gone, and clears what it left.

What an observer can see under a final name: nothing, or a whole file. The files of a set move there one after another
once all of them are written, so for that moment new ones may stand beside those of the set before. A process that is
killed within that moment leaves the rest of the set complete in the work folder, and the next claim moves it on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from boundcheck.errors import InputError
from boundcheck.folder_lock import LOCK, InUseError, interrupts_held, locked

WORK = ".boundcheck"  # beside the results while a command is at work
PARTS, COMPLETE = "parts", "complete"  # files that are being written, and a set that is on its way


@dataclass(frozen=True)
class Results:
    """A place that this process alone writes to, as `sole_use` and `sole_use_of_file` give it."""

    place: Path
    work: Path
    label: str  # what the user calls it
    kind: str  # a directory or a path

    @contextmanager
    def together(self, *, durable: bool = False) -> Iterator[Path]:
        """A folder to write a set of files into; they move to their place together when it is left without an error.

        With `durable` they are on the disk, and so are their names, before this returns.
        """
        parts = self.work / PARTS
        try:
            parts.mkdir(parents=True)
            try:
                yield parts
                if taken := [path.name for path in parts.iterdir() if (self.place / path.name).is_dir()]:
                    raise InputError(f"{self.label} cannot be written: {taken[0]} is a folder there; remove it")
                if durable:
                    for path in parts.iterdir():
                        _flush(path)
                with interrupts_held():
                    parts.rename(self.work / COMPLETE)
                    self.move_on()
                    if durable:
                        _flush(self.place)
            finally:
                shutil.rmtree(parts, ignore_errors=True)
        except OSError as why:
            raise InputError(f"{self.label} cannot be written ({why.strerror}); give another {self.kind}") from why

    def write(self, contents: Mapping[str, bytes], *, durable: bool = False) -> list[Path]:
        """These files, by name, as one set."""
        with self.together(durable=durable) as parts:
            for name, content in contents.items():
                (parts / name).write_bytes(content)
        return [self.place / name for name in contents]

    def move_on(self) -> None:
        """Move what is complete to its place, in the order of the names."""
        complete = self.work / COMPLETE
        if complete.is_dir():
            for path in sorted(complete.iterdir()):
                os.replace(path, self.place / path.name)
            complete.rmdir()

    def clear(self) -> None:
        """Remove all but the lock."""
        for path in self.work.iterdir() if self.work.is_dir() else ():
            if path.name != LOCK:
                remove(path)


@contextmanager
def sole_use(directory: str | os.PathLike[str] | Results) -> Iterator[Results]:
    """Claim a folder for results, made if need be; a claim that is held already is passed on.

    Parameters
    ----------
    directory : str, path or Results
        The folder, or what an outer `sole_use` gave.

    Returns
    -------
    Results
        Through which files get there, until the context is left. Then nothing remains but the results.

    Raises
    ------
    InputError
        If the folder cannot be made or written to, or another process is at work in it.
    """
    if isinstance(directory, Results):
        yield directory
        return
    place = Path(directory)
    missing = [path for path in (place, *place.parents) if not path.exists()]
    try:
        with _claimed(Results(place, place / WORK, f"--out {place}", "directory"), parents=True) as results:
            yield results
    finally:
        for path in missing:
            if not remove_empty(path):
                break


@contextmanager
def sole_use_of_file(path: str | os.PathLike[str], label: str = "") -> Iterator[Results]:
    """Claim one file, as `sole_use` does a folder; others may write beside it."""
    file = Path(path)
    beside = file.with_name(f"{WORK}-{file.name}")
    with _claimed(Results(file.parent, beside, label or f"path = {str(file)!r}", "path"), parents=False) as results:
        yield results


def write_whole(path: Path, contents: bytes, *, durable: bool = False) -> Path:
    """Write one file, completely or not at all; with `durable`, it is on the disk before this returns."""
    with sole_use_of_file(path) as results:
        return results.write({path.name: contents}, durable=durable)[0]


@contextmanager
def _claimed(results: Results, *, parents: bool) -> Iterator[Results]:
    try:
        lock = locked(results.work, results.place if parents else None)
    except InUseError as why:
        raise InputError(f"{results.label} is in use: {why}, or give another {results.kind}") from None
    except OSError as why:
        if parents:
            refuse_unless_writable(results.place)
        raise InputError(f"{results.label} cannot be written ({why.strerror}); give another {results.kind}") from why
    try:
        results.move_on()
        results.clear()  # what a process that was killed left
        yield results
    finally:
        with interrupts_held():
            results.clear()
            lock.release()


def refuse_unless_writable(place: Path) -> None:
    """Why a folder cannot be made, or written to."""
    there = next(path for path in (place, *place.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "may not be written to" if there.is_dir() else "is a file"
        raise InputError(f"--out {place} cannot be made: {there} {why}; give another directory")


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_empty(folder: Path) -> bool:
    """Remove a folder if it is empty; returns whether it was."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _flush(path: Path) -> None:
    """Onto the disk; a folder where one can be opened."""
    if path.is_dir() and not hasattr(os, "O_DIRECTORY"):
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)

"""Write results to the disk: whole files, in whole sets, by one process at a time.

A process first claims the folder (or the file) that it writes to. The claim is a hidden work folder beside the results
that contains a lock of the operating system and the unfinished files. The system releases the lock when the process
ends or is killed; the next process then removes the files that were left.

A file with its final name is always complete. When all files of a set are written, they are moved to their place one
by one, so for a moment new files may be beside files of the previous set. If the process is killed in this moment, the
rest of the set is complete in the work folder, and the next claim moves it.
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

WORK = ".boundcheck"  # the work folder beside the results, while a command runs
PARTS, COMPLETE = "parts", "complete"  # folders of unfinished files, and of a complete set to be moved


@dataclass(frozen=True)
class Results:
    """A folder that only this process writes to, from `sole_use` or `sole_use_of_file`."""

    place: Path
    work: Path
    label: str  # the name of the place in messages
    kind: str  # "directory" or "path"

    @contextmanager
    def together(self, *, durable: bool = False) -> Iterator[Path]:
        """Yield a folder for a set of files; the files move to their place when the context ends without an error.

        With `durable`, the files and their names are on the disk before this returns.
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
        """Write files, given as contents by name, as one set."""
        with self.together(durable=durable) as parts:
            for name, content in contents.items():
                (parts / name).write_bytes(content)
        return [self.place / name for name in contents]

    def move_on(self) -> None:
        """Move the files of a complete set to their place, in the order of their names."""
        complete = self.work / COMPLETE
        if complete.is_dir():
            for path in sorted(complete.iterdir()):
                os.replace(path, self.place / path.name)
            complete.rmdir()

    def clear(self) -> None:
        """Remove everything in the work folder except the lock."""
        for path in self.work.iterdir() if self.work.is_dir() else ():
            if path.name != LOCK:
                remove(path)


@contextmanager
def sole_use(directory: str | os.PathLike[str] | Results) -> Iterator[Results]:
    """Claim a folder for results. The folder is created if it does not exist.

    Parameters
    ----------
    directory : str, path or Results
        The folder, or the claim of an outer `sole_use`, which is returned as it is.

    Returns
    -------
    Results
        The claim, through which files are written. When the context ends, only the results remain.

    Raises
    ------
    InputError
        If the folder cannot be created or written to, or another process uses it.
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
    """Claim one file, as `sole_use` claims a folder. Other processes may write other files in its folder."""
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
        results.clear()  # files that a killed process left
        yield results
    finally:
        with interrupts_held():
            results.clear()
            lock.release()


def refuse_unless_writable(place: Path) -> None:
    """Raise InputError if a folder cannot be created or written to, with the reason."""
    existing = next(path for path in (place, *place.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        why = "may not be written to" if existing.is_dir() else "is a file"
        raise InputError(f"--out {place} cannot be made: {existing} {why}; give another directory")


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents."""
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
    """Flush a file to the disk, or a folder if the system can open folders."""
    if path.is_dir() and not hasattr(os, "O_DIRECTORY"):
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)

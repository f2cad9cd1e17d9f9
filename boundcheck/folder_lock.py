"""A lock that a process holds until it ends, however it ends; and Ctrl-C held back for a moment."""

from __future__ import annotations

import importlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

LOCK = "lock"
TRIES = 100  # to lock a file that others keep removing


class InUseError(Exception):
    """Somebody else holds the lock; its text says what to do."""


@dataclass(frozen=True)
class Lock:
    """The open file `LOCK` in the folder `work`, which no other process can lock while it is open."""

    work: Path
    file: int
    by_system: bool  # False: the existence of the file keeps others out

    def release(self) -> None:
        """Remove file and folder; while the file is locked, or another process could lock what is removed then."""
        if not self.by_system:
            os.close(self.file)
        with suppress(OSError):
            (self.work / LOCK).unlink()
            self.work.rmdir()
        if self.by_system:
            os.close(self.file)


def locked(work: Path, parent: Path | None = None) -> Lock:
    """The lock of the folder `work`, both made if need be, and `parent` with its own parents if it is given.

    Parameters
    ----------
    work : Path
        The folder of the lock; the owner may put what it likes beside it.
    parent : Path, optional
        A folder that is made first.

    Returns
    -------
    Lock
        To be released; the system does that where its process is killed.

    Raises
    ------
    InUseError
        If another process holds it, or where there are no locks, if its file is there.
    OSError
        If the folder cannot be made.
    """
    failure: OSError | None = None
    for _ in range(TRIES):
        try:
            if parent is not None:
                parent.mkdir(parents=True, exist_ok=True)
            work.mkdir(exist_ok=True)
            file, new = _open(work / LOCK)
        except (FileNotFoundError, FileExistsError) as why:  # its owner may be removing it now
            failure = why
            continue
        try:
            by_system = _lock(file)
        except BlockingIOError:
            os.close(file)
            raise InUseError("another command is at work in it; wait for it") from None
        if not by_system and not new:
            os.close(file)
            raise InUseError(f"{work} is there; remove it if no other command is at work in it") from None
        if _is_at(file, work / LOCK):
            return Lock(work, file, by_system)
        os.close(file)  # its owner removed it before it was locked here
    raise failure or FileNotFoundError(2, f"{work} does not stay")


def _open(path: Path) -> tuple[int, bool]:
    """The open file, and whether it is new."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        return os.open(path, os.O_RDWR), False


def _lock(file: int) -> bool:
    """Lock the file or raise BlockingIOError; False on Windows and on a file system without locks."""
    try:
        fcntl = importlib.import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except (ImportError, OSError):
        return False
    return True


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until the block has ended."""
    is_main = threading.current_thread() is threading.main_thread()  # only the main thread receives signals
    if not is_main or signal.getsignal(signal.SIGINT) is None:  # None: the handler was not set from Python
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt

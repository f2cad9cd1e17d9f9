"""A lock of a folder that is released when its process ends or is killed, and a context that delays Ctrl-C."""

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
TRIES = 100  # attempts to lock a file that other processes remove in the meantime


class InUseError(Exception):
    """Another process holds the lock; the text says what to do."""


@dataclass(frozen=True)
class Lock:
    """The open file `LOCK` in the folder `work`. No other process can lock it while it is open."""

    work: Path
    file: int
    by_system: bool  # False: there are no locks, and the existence of the file excludes other processes

    def release(self) -> None:
        """Remove the file and the folder while the file is locked, so that no other process locks a removed file."""
        if not self.by_system:
            os.close(self.file)
        with suppress(OSError):
            (self.work / LOCK).unlink()
            self.work.rmdir()
        if self.by_system:
            os.close(self.file)


def locked(work: Path, parent: Path | None = None) -> Lock:
    """Lock the folder `work`. The folder is created if it does not exist.

    Parameters
    ----------
    work : Path
        The folder of the lock. The owner of the lock may write other files there.
    parent : Path, optional
        A folder that is created first, with its parents.

    Returns
    -------
    Lock
        The lock, which the caller releases; the system releases it if the process is killed.

    Raises
    ------
    InUseError
        If another process holds the lock; on systems without locks, if the file of the lock exists.
    OSError
        If the folder cannot be created.
    """
    failure: OSError | None = None
    for _ in range(TRIES):
        try:
            if parent is not None:
                parent.mkdir(parents=True, exist_ok=True)
            work.mkdir(exist_ok=True)
            file, new = _open(work / LOCK)
        except (FileNotFoundError, FileExistsError) as why:  # the owner may be removing the folder now
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
        os.close(file)  # the owner removed the file before it was locked here
    raise failure or FileNotFoundError(2, f"{work} does not stay")


def _open(path: Path) -> tuple[int, bool]:
    """Open the file; also returns whether it is new."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        return os.open(path, os.O_RDWR), False


def _lock(file: int) -> bool:
    """Lock the file or raise BlockingIOError; return False on Windows and on a file system without locks."""
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
    """Delay Ctrl-C until the block has ended."""
    is_main = threading.current_thread() is threading.main_thread()  # only the main thread receives signals
    if not is_main or signal.getsignal(signal.SIGINT) is None:  # None: the handler was not set from Python
        yield
        return
    signals: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if signals:
        raise KeyboardInterrupt

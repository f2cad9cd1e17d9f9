"""Workers that run slices: this process, several processes, or a Dask cluster, with the same methods."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Collection
from concurrent import futures
from typing import Any, Protocol

from boundcheck.errors import BoundcheckError, InputError

ANSWER = 10  # seconds that a scheduler, and then a first worker, has to answer
DEATHS = 5  # give up a slice after so many deaths of workers, beyond those that the scheduler allows
AGAIN = "the same command resumes from here"


class Workers(Protocol):
    """`submit` starts a call, `finished` waits until some calls are done, `result` returns the value or raises."""

    count: int
    place: str

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any: ...
    def finished(self, calls: Collection[Any]) -> list[Any]: ...
    def result(self, call: Any) -> Any: ...
    def __enter__(self) -> Workers: ...
    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None: ...


def workers(jobs: int, scheduler: str) -> Workers:
    """Return the workers for the options --jobs and --scheduler."""
    if jobs < 1:
        raise InputError(f"--jobs must be at least 1 (got {jobs})")
    if scheduler and jobs > 1:
        raise InputError(f"--jobs {jobs} and --scheduler {scheduler} were given together; leave out --jobs")
    return Cluster(scheduler) if scheduler else Processes(jobs) if jobs > 1 else Here()


class Here:
    """This process. `submit` runs the call at once."""

    count, place = 1, "in this process"

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def finished(self, calls: Collection[Any]) -> list[Any]:
        return list(calls)

    def result(self, call: Any) -> Any:
        return call

    def __enter__(self) -> Here:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        pass


class Processes:
    """Several processes on this machine. They end when this process ends, even if it is killed."""

    def __init__(self, jobs: int) -> None:
        self.count, self.place = jobs, f"in {jobs} processes"

    def __enter__(self) -> Processes:
        self._others = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")  # a forked torch may hang
        self._pool = futures.ProcessPoolExecutor(self.count, mp_context=context, initializer=_settle)
        return self

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._pool.submit(_by_value, pickle.dumps((function, arguments)))
        except futures.process.BrokenProcessPool:
            raise _killed() from None

    def finished(self, calls: Collection[Any]) -> list[Any]:
        return list(futures.wait(calls, return_when=futures.FIRST_COMPLETED).done)

    def result(self, call: Any) -> Any:
        try:
            return pickle.loads(call.result())
        except futures.process.BrokenProcessPool:
            raise _killed() from None

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        mine = set(multiprocessing.active_children()) - self._others
        if kind is not None:  # the results of the running slices are not needed
            for process in mine:
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)


def _killed() -> InputError:
    why = "one of the processes was killed, perhaps for want of memory"
    return InputError(f"{why}; {AGAIN}, perhaps with fewer --jobs")


def _by_value(call: bytes) -> bytes:
    """Run a pickled call and pickle its value. Otherwise torch shares memory with a process that may have ended."""
    function, arguments = pickle.loads(call)
    return pickle.dumps(function(*arguments))


def _settle() -> None:
    """Prepare a new process: ignore Ctrl-C, which the parent handles, and exit when the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Cluster:
    """A Dask cluster. If a worker dies, the scheduler or this process gives its slice to another worker."""

    def __init__(self, address: str) -> None:
        try:
            self._dask = importlib.import_module("distributed")
        except ImportError:
            why = "needs distributed, not installed: pip install 'boundcheck[distributed]'"
            raise InputError(f"--scheduler {address} {why}") from None
        try:
            self._dask.comm.get_address_host_port(address, strict=False)
        except ValueError as why:
            raise InputError(f"--scheduler {address} is not an address ({why}); give it as tcp://HOST:8786") from None
        self.address = address
        self.count, self.place = 1, f"on the cluster at {address}"

    def __enter__(self) -> Cluster:
        try:
            self._client = self._dask.Client(self.address, timeout=ANSWER, set_as_default=False)
        except (OSError, ValueError, TimeoutError, TypeError) as why:
            text = " ".join(str(why).split())[:120]
            remedy = "start one with `dask scheduler`, and give its address as tcp://HOST:8786"
            raise InputError(f"--scheduler {self.address} does not answer ({text}); {remedy}") from None
        try:
            self._client.wait_for_workers(1, timeout=ANSWER)
        except TimeoutError:
            self._client.close()
            remedy = f"start some with `dask worker {self.address}`"
            raise InputError(f"--scheduler {self.address} has no workers after {ANSWER} s; {remedy}") from None
        self.count = max(1, sum(self._client.nthreads().values()))
        self._calls: dict[Any, tuple[Any, ...]] = {}
        self._deaths: dict[Any, int] = {}
        return self

    def submit(self, function: Callable[..., Any], *arguments: Any, deaths: int = 0) -> Any:
        future = self._client.submit(function, *arguments, pure=False)
        self._calls[future], self._deaths[future] = (function, *arguments), deaths
        return future

    def finished(self, calls: Collection[Any]) -> list[Any]:
        while True:
            try:
                with self._client.as_current():
                    return list(self._dask.wait(list(calls), ANSWER, return_when="FIRST_COMPLETED").done)
            except TimeoutError:  # a slice may take longer than ANSWER, as long as there are workers
                if not self._client.nthreads():
                    remedy = f"start some with `dask worker {self.address}`, and {AGAIN}"
                    raise InputError(f"--scheduler {self.address} has no workers left; {remedy}") from None
            except (futures.CancelledError, self._dask.CancelledError):  # raised when the scheduler is lost
                raise InputError(f"--scheduler {self.address} was lost; {AGAIN} once it is back") from None

    def result(self, call: Any) -> Any:
        arguments, deaths = self._calls.pop(call), self._deaths.pop(call)
        try:
            return call.result()
        except BoundcheckError:
            raise
        except self._dask.KilledWorker:
            if deaths >= DEATHS:
                why = f"workers keep dying under {arguments[2].key}, perhaps for want of memory"
                raise InputError(f"{why}; {AGAIN} once that is fixed") from None
            again = self.submit(*arguments, deaths=deaths + 1)
            self.finished([again])
            return self.result(again)
        except (ImportError, futures.CancelledError, self._dask.CancelledError) as why:
            text = f"{type(why).__name__}: {' '.join(str(why).split())[:160]}"
            raise InputError(f"a worker of {self.address} failed ({text}); {AGAIN} once that is fixed") from None

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._client.cancel(list(self._calls), force=True)
        self._client.close(timeout=ANSWER)

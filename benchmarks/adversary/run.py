"""Many problems on all cores, with progress: false statements by kind, and what was refused.

With ``--log FILE`` a run may be stopped and go on later: problems that the file has are not done again, and the end
tells of all of them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from . import log
from .ask import CALLS, ask
from .log import Chunk
from .tally import SHOWN, Tally

PIECE = 20  # problems that a process takes at a time
OFTEN = 30  # seconds between two lines of progress


def _single_thread() -> None:
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent


def _piece(job: tuple[range, int]) -> tuple[range, Tally]:
    numbers, seed = job
    tally = Tally()
    for number in numbers:
        tally.add(ask(number, seed))
    return numbers, tally


def run(
    first: int, problems: int, seed: int = 0, jobs: int = 1, *, progress: bool = False, path: Path | None = None,
    piece: int = PIECE,
) -> Tally:  # fmt: skip
    """Problems number `first` … `first + problems − 1`; what was counted so far when Ctrl-C is pressed.

    With a log at `path`, only those that it does not have, and the tally is that of the whole log.
    """
    code = log.code()
    before = log.read(path) if path is not None else []
    tally = _whole(before)
    pieces = log.left(before, range(first, first + problems), seed, piece)
    todo, done, start = sum(map(len, pieces)), 0, time.perf_counter()
    if progress and before:
        others = sum(chunk.tally.problems for chunk in before if chunk.code != code)
        print(f"{tally.problems} problems are in the log ({others} with other code), {todo} are left", flush=True)
    if not pieces:
        return tally
    shown = start
    with multiprocessing.get_context("spawn").Pool(jobs, _single_thread) as pool:
        try:
            for numbers, of_piece in pool.imap_unordered(_piece, [(numbers, seed) for numbers in pieces]):
                if path is not None:
                    log.append(path, Chunk(seed, numbers.start, code, of_piece))
                tally.join(of_piece)
                done += len(numbers)
                if progress:  # at once: a long run may be cut short
                    for lines in of_piece.lies.values():
                        print(*lines, sep="\n", flush=True)
                now = time.perf_counter()
                if progress and (now - shown > OFTEN or done == todo):
                    shown = now
                    seconds = (now - start) / done * (todo - done)
                    print(f"{done}/{todo}, {tally.false} false, {seconds:.0f} s left", flush=True)
        except KeyboardInterrupt:
            pool.terminate()
            print("stopped")
    return tally if path is None else _whole(log.read(path))  # it may have been stopped just after it wrote a line


def _whole(chunks: Sequence[Chunk]) -> Tally:
    tally = Tally()
    for chunk in chunks:
        tally.join(chunk.tally)
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where a false statement was found."""
    parser = argparse.ArgumentParser(prog="adversary", description=__doc__)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--log", type=Path, help="append a line for each chunk, and leave out what is done there")
    parser.add_argument("--piece", type=int, default=PIECE, help="problems that a process takes at a time")
    parser.add_argument("--only", type=int, help="run this problem alone, in this process, and show it")
    parser.add_argument("--call", choices=sorted(CALLS), help="with --only: ask this in place of what the seed chose")
    parser.add_argument("--shown", type=int, default=SHOWN, help="lines of each kind of false statement")
    chosen = parser.parse_args(arguments)
    if chosen.only is not None:
        return _alone(chosen.only, chosen.seed, chosen.call)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell turns it off for what it runs in the background
    tally = run(
        chosen.first, chosen.problems, chosen.seed, chosen.jobs, progress=True, path=chosen.log, piece=chosen.piece
    )
    print(tally.text(chosen.shown))
    return int(tally.false > 0)


def _alone(number: int, seed: int, call: str | None) -> int:
    from .generate import case_of

    print(case_of(number, seed))
    answer = ask(number, seed, call)
    print(f"{answer.call}: {answer.refusal or 'answered'}, {answer.seconds:.2f} s")
    for _, line in answer.lies:
        print(line)
    return int(bool(answer.lies))

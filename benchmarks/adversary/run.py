"""Many problems on all cores, with progress: false statements by kind, and what was refused."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from .ask import CALLS, Answer, ask

PIECE = 20  # problems that a process takes at a time
SHOWN = 3  # lines of each kind


@dataclass
class Tally:
    """What came of all problems so far."""

    problems: int = 0
    seconds: float = 0.0
    lies: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    asked: Counter[str] = field(default_factory=Counter)  # legal problems by ingredient
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    unlawful: Counter[str] = field(default_factory=Counter)  # "asked" and "refused", of problems that are not legal

    def add(self, answer: Answer) -> None:
        self.problems += 1
        self.seconds += answer.seconds
        for kind, line in answer.lies:
            self.lies[kind].append(line)
        if answer.legal:
            self.asked.update(answer.kinds)
            if answer.refusal:
                self.refused.update(answer.kinds)
                self.reasons[answer.refusal.partition(": ")[2][:70] or answer.refusal[:70]] += 1
        else:
            self.unlawful["asked"] += 1
            self.unlawful["refused"] += bool(answer.refusal)

    @property
    def false(self) -> int:
        return sum(map(len, self.lies.values()))

    def text(self, shown: int = SHOWN) -> str:
        lines = [f"{self.problems} problems, {1e3 * self.seconds / max(1, self.problems):.0f} ms each on one core"]
        lines += [f"{self.false} false statements" + (":" if self.false else "")]
        for kind, found in sorted(self.lies.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(found):6d}  {kind}")
            lines += [f"            {line}" for line in found[:shown]]
        lines.append("refused, of legal problems with this ingredient:")
        for kind, count in sorted(self.asked.items()):
            lines.append(f"  {self.refused[kind]:6d} of {count:6d}  {kind}")
        lines.append(f"refused, of problems that are not legal: {self.unlawful['refused']} of {self.unlawful['asked']}")
        lines.append("why legal problems were refused, most often:")
        lines += [f"  {count:6d}  {reason}" for reason, count in self.reasons.most_common(8)]
        return "\n".join(lines)


def _single_thread() -> None:
    import signal

    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent


def _piece(job: tuple[range, int]) -> list[Answer]:
    numbers, seed = job
    return [ask(number, seed) for number in numbers]


def run(first: int, problems: int, seed: int = 0, jobs: int = 1, *, progress: bool = False) -> Tally:
    """Problems number `first` … `first + problems − 1`; what was counted so far when Ctrl-C is pressed."""
    tally, start = Tally(), time.perf_counter()
    pieces = [
        (range(at, min(at + PIECE, first + problems)), seed) for at in range(first, first + problems, PIECE)
    ]  # fmt: skip
    shown = start
    with multiprocessing.get_context("spawn").Pool(jobs, _single_thread) as pool:
        try:
            for answers in pool.imap_unordered(_piece, pieces):
                for answer in answers:
                    tally.add(answer)
                    if progress:  # at once: a long run may be cut short
                        for _, line in answer.lies:
                            print(line, flush=True)
                now = time.perf_counter()
                if progress and (now - shown > 30 or tally.problems == problems):
                    shown = now
                    left = (now - start) / tally.problems * (problems - tally.problems)
                    print(f"{tally.problems}/{problems}, {tally.false} false, {left:.0f} s left", flush=True)
        except KeyboardInterrupt:
            pool.terminate()
            print("stopped")
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where a false statement was found."""
    parser = argparse.ArgumentParser(prog="adversary", description=__doc__)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="run this problem alone, in this process, and show it")
    parser.add_argument("--call", choices=sorted(CALLS), help="with --only: ask this in place of what the seed chose")
    parser.add_argument("--shown", type=int, default=SHOWN, help="lines of each kind of false statement")
    chosen = parser.parse_args(arguments)
    if chosen.only is not None:
        return _alone(chosen.only, chosen.seed, chosen.call)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    tally = run(chosen.first, chosen.problems, chosen.seed, chosen.jobs, progress=True)
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

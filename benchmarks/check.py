"""What a check costs over the bare error curves: ``make bench`` or ``python benchmarks/check.py``.

`check lr --t 200 --samples 20` with three methods, all bounds, and all figures and files, against `error_curves` of the
same; then where the time goes, on this and on the other problems of the paper with one λ.
"""

from __future__ import annotations

import tempfile
import time

import torch
from clock import race

import boundcheck as bc
from boundcheck.progress import Progress

METHODS = ["itd", "aid-fp", "aid-cg"]


def with_files(problem: bc.Problem, samples: int, T: int = 200) -> None:
    with tempfile.TemporaryDirectory() as place:
        bc.check(problem, METHODS, T, samples, 0).save(place)


def ratio(name: str, samples: int, repeat: int = 3) -> None:
    problem = bc.load_problem(name)
    seed = 0 if samples > 1 else None
    whole, bare = race(
        lambda: with_files(problem, samples),
        lambda: bc.error_curves(problem, METHODS, t=200, samples=samples, seed=seed),
        repeat=repeat,
    )
    wanted = " (below 3)" if (name, samples) == ("lr", 20) else ""
    print(
        f"{name:4s} {samples:2d} λ: check with figures {whole:.2f} s, curves {bare:.2f} s, x{whole / bare:.2f}{wanted}"
    )


def shares(name: str, samples: int) -> None:
    """Seconds between the messages of progress."""
    problem = bc.load_problem(name)
    spent: dict[str, float] = {}
    last = ["", time.perf_counter()]

    def tell(what: str, done: int, of: int) -> None:
        now = time.perf_counter()
        spent[str(last[0])] = spent.get(str(last[0]), 0.0) + now - float(last[1])
        last[:] = [what, now]

    message: Progress = tell
    report = bc.check(problem, METHODS, 200, samples, 0, progress=message)
    tell("figures", 0, 1)
    with tempfile.TemporaryDirectory() as place:
        report.save(place)
    tell("", 0, 1)
    print("     " + ", ".join(f"{what} {seconds:.2f} s" for what, seconds in spent.items() if what))


def main() -> None:
    torch.set_num_threads(1)
    ratio("lr", 20)
    shares("lr", 20)
    for name in ("lr", "krr", "br", "hr"):
        ratio(name, 1, repeat=1)
        shares(name, 1)


if __name__ == "__main__":
    main()

"""Error curves at every t, as ratios in one run: ``make bench`` or ``python benchmarks/curves.py [--full] [problems]``.

Against the plain per-t loop (rivals/plain.py) and against jitted JAX (rivals/jax_curves.py), one thread each. The plain
loop is linear in the number of λ, so one λ is timed and multiplied; ``--full`` times all of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from clock import peak_megabytes, race, seconds
from rivals import plain

import boundcheck as bc

METHODS = ["itd", "aid-fp", "aid-cg", "aid-fp:10", "aid-cg:10"]
LEAST = {"lr": 40, "krr": 40, "br": 40, "hr": 12}
MEMORY = 1 << 28
LARGER: list[tuple[str, dict[str, int]]] = [
    ("lr", {"features": 300}), ("lr", {"features": 1000}), ("krr", {"size": 200}), ("br", {"features": 1000}),
    ("hr", {"represented": 1000}),
]  # fmt: skip


def rival(name: str, T: int, count: int, **sizes: int) -> tuple[Callable[..., object], float] | None:
    """The JAX curves of (lam, exact), and seconds of their first call, which compiles them; None without JAX."""
    try:
        from rivals import jax_curves
    except ImportError:
        return None
    start = time.perf_counter()
    curves = jax_curves.compiled(name, T, METHODS, count, **sizes)
    return curves, time.perf_counter() - start


def against(name: str, T: int, samples: int, full: bool, rounds: int = 5, **sizes: int) -> None:
    problem = bc.load_problem(name, **sizes)
    lams = problem.sample(samples, seed=0)
    curves = bc.error_curves(problem, METHODS, t=T, lam=lams)
    jitted = rival(name, T, samples, **sizes)
    runs: list[Callable[[], object]] = [lambda: bc.error_curves(problem, METHODS, t=T, lam=lams)]
    if jitted is not None:
        runs.append(lambda: jitted[0](lams, curves.exact))
    ours, *others = race(*runs, repeat=rounds)  # in turn
    line = f"{name:4s} d={problem.d:4d} T={T} {samples:2d} lam: {ours:6.2f} s (itd by {curves.algorithm})"
    timed = samples if full else 1
    if T == 200 and samples > 1 and not sizes:
        loop = seconds(
            lambda: [plain.error_curves(problem, lams[i], curves.exact[i], T, METHODS) for i in range(timed)],
            repeat=1, warm=False,
        ) * samples / timed  # fmt: skip
        line += f"   plain loop {loop:7.1f} s  x{loop / ours:5.1f} (at least x{LEAST[name]})"
    if jitted is None:
        line += "   jax not installed"
    else:
        first = jitted[1]
        line += (
            f"   jax {others[0]:6.2f} s  x{others[0] / ours:5.2f}, its first call {first:5.1f} s  x{first / ours:5.1f}"
        )
    print(line, flush=True)


def main() -> None:
    torch.set_num_threads(1)
    full = "--full" in sys.argv
    names = [a for a in sys.argv[1:] if not a.startswith("-")] or list(LEAST)
    bc.error_curves(bc.load_problem("scalar"), t=5)  # torch.func loads itself once
    print("whole curves of", ", ".join(METHODS))
    for name in names:
        against(name, 200, 20, full)
    for name in names:
        against(name, 500, 1, full)
    print("other sizes than the paper's")
    for name, sizes in LARGER:
        if name in names:
            against(name, 200, 20, full, rounds=2, **sizes)
            against(name, 500, 1, full, rounds=3, **sizes)
    print("one lam and few t: most of the time is the Python side of each step")
    for name, sizes in [(name, {}) for name in LEAST] + LARGER:
        if name in names:
            against(name, 200, 1, full, **sizes)
    print("growth with T (one lam; T² would be x4 each time)")
    for name in names:
        problem = bc.load_problem(name)
        times = [seconds(lambda T=T, p=problem: bc.error_curves(p, METHODS, t=T), repeat=3) for T in (100, 200, 400)]
        ratios = ", ".join(f"x{b / a:.1f}" for a, b in pairwise(times))
        print(f"{name:4s} T=100, 200, 400: {', '.join(f'{s:.2f}' for s in times)} s  {ratios}", flush=True)
    print(f"peak memory at T=1000, one lam, budget {MEMORY >> 20} MB")
    for name in names:
        setup = f"p = bc.load_problem({name!r}); bc.error_curves(p, {METHODS}, t=3)"
        peak = peak_megabytes(setup, f"bc.error_curves(p, {METHODS}, t=1000, memory={MEMORY})")
        print(f"{name:4s} {peak:6.0f} MB", flush=True)


if __name__ == "__main__":
    main()

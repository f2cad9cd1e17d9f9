"""Products until ‖∇f‖ ≤ tol: `minimise` against fixed t and k, HOAG and MAID, on real data, in one run.

The rivals are told by the true gradient when they have arrived; `minimise` has to find out by itself. The products of
its proof are not counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import torch

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import Problem
from outer_rules import fixed
from outer_rules.fixed import Fixed
from outer_rules.judge import Run
from outer_rules.problems import PROBLEMS

TOL = {"lr": 1e-4, "krr": 5e-4, "multinomial": 2e-4}
GRID = (1, 3, 10, 30, 100)
MULTIPLES = (0.1, 0.3, 1.0, 3.0)  # of the median step of `minimise`, as constant steps
PATIENCE = 4  # times the products of `minimise`, after which a rival is given up


def choices(alpha: float) -> Iterator[Fixed]:
    for step in (None, *(m * alpha for m in MULTIPLES)):
        for newton in (False, True):
            for t in GRID:
                yield from (Fixed(t, k, newton, step) for k in GRID)


def best_fixed(problem: Problem, tol: float, alpha: float, limit: float) -> tuple[list[Run], float]:
    runs = []
    for choice in choices(alpha):
        runs.append(fixed.run(problem, tol, choice, limit))
        limit = min(limit, runs[-1].products)
    return sorted(runs, key=lambda run: run.products), limit


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[1:] or PROBLEMS:
        problem, tol = PROBLEMS[name](), TOL[name]
        start = time.process_time()
        ours = bc.minimise(problem, tol=tol, prove=False)
        steps = sorted(trial.step_size for trial in ours.history if trial.accepted and trial.step_size)
        alpha = steps[len(steps) // 2]
        print(name, ours, f"median step {alpha:.3g}, {time.process_time() - start:.1f} s", flush=True)
        start = time.process_time()
        runs, _ = best_fixed(problem, tol, alpha, PATIENCE * ours.products)
        for run in runs[:4]:
            print("   ", run, f"ours/best {ours.products / run.products:.2f}", flush=True)
        print(f"    {time.process_time() - start:.1f} s")


if __name__ == "__main__":
    main()

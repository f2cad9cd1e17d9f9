"""Products until ‖∇f‖ ≤ tol: `minimise` against fixed t and k, HOAG and MAID, on real data, in one run.

One judge, the true ‖∇f‖, says for all of them when they have arrived, and asks that they are not on a plateau of f far
away. Products are evaluations of Φ and products with its derivatives. The last line of each problem counts those with
which `minimise` finds out by itself that it has arrived; those of the proof are not counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import torch
from outer_rules import fixed, hoag, maid
from outer_rules.fixed import Fixed
from outer_rules.judge import Judge, Run, watched
from outer_rules.problems import PROBLEMS

import boundcheck as bc
from boundcheck.trust.outer_value import Corrections

TOL = {"lr": 1e-4, "krr": 1e-3, "multinomial": 5e-4}
GRID = (3, 10, 30, 100)  # for t and k; the likely ones first, as a run ends where the best so far has ended
STEPS = (0.3, 1.0)  # constant outer steps, in the median step of `minimise`
PATIENCE = 4  # times the products of `minimise`, after which a rival is given up
POINTS = 100  # after which it is given up too
PLATEAU = 0.1  # of the decrease of f, which a run may lack


def choices(newton: bool, alpha: float) -> Iterator[Fixed]:
    """(t, k) with the line search of `minimise`, and the likely ones with constant steps."""
    for t in GRID:
        yield from (Fixed(t, k, newton, None) for k in GRID)
    for t in GRID[:2]:
        yield from (Fixed(t, k, newton, step * alpha) for k in GRID[:2] for step in STEPS)


def compare(name: str) -> None:
    problem, tol = PROBLEMS[name](), TOL[name]
    minimum = bc.minimise(problem, tol=tol, prove=False)
    steps = sorted(trial.step_size for trial in minimum.history if trial.accepted and trial.step_size)
    highest = minimum.f + PLATEAU * (minimum.history[0].f - minimum.f)
    ours = watched(Judge(problem, tol, highest, float("inf"), POINTS), "minimise", Corrections())
    most = PATIENCE * ours.products

    def best(newton: bool) -> Run:
        limit, runs = most, []
        for choice in choices(newton, steps[len(steps) // 2]):
            runs.append(fixed.run(Judge(problem, tol, highest, limit, POINTS), choice))
            limit = min(limit, runs[-1].products)
        return min(runs, key=lambda run: run.products)

    runs = [ours, best(False), best(True)]
    runs += [rule.run(Judge(problem, tol, highest, 4 * most, 10 * POINTS)) for rule in (hoag, maid)]
    at_first = minimum.history[0].gradient_norm
    print(f"{name}: d = {problem.d}, n = {problem.n}, tol = {tol:g}, ‖∇f‖ = {at_first:.2g} at first")
    for run in runs:
        ratio = ours.products / run.products
        print(f"    {run.name:36s} {run.products:6.0f} products {run.points:4d} points   ours/this {ratio:.2f}")
    print(f"    minimise, without a judge: {minimum.products} products", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[1:] or PROBLEMS:
        start = time.process_time()
        compare(name)
        print(f"    ({time.process_time() - start:.0f} s of CPU)")


if __name__ == "__main__":
    main()

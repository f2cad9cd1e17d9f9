"""One hypergradient, as ratios in one run: ``make bench``.

The overhead of `hypergradient` over a minimal autograd loop on LR, and time and memory on 20 newsgroups: 2 million
unknowns with sparse data, where AID must keep to a few states and checkpointed ITD to √t of them.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from clock import peak_megabytes, race, seconds
from rivals import plain

import boundcheck as bc
from boundcheck.numerics.bilevel.derivatives import Linearisation
from boundcheck.problems.parts.newsgroups_documents import load_documents

STEPS = 100
RUNS = (
    ("aid-fp", 10, "auto"),
    ("aid-fp", 40, "auto"),
    ("aid-cg", 40, "auto"),
    ("itd", 10, "checkpoint"),
    ("itd", 40, "checkpoint"),
    ("itd", 40, "reverse"),
)


def overhead() -> None:
    problem = bc.load_problem("lr")
    lam = problem.lam
    pairs = {
        "aid-fp": lambda: plain.minimal_aid_fp(problem, lam, STEPS, STEPS),
        "itd": lambda: plain.minimal_itd(problem, lam, STEPS),
    }
    for name, minimal in pairs.items():
        base, ours = race(minimal, lambda name=name: bc.hypergradient(problem, name, STEPS), repeat=60)
        print(f"lr {name:6s} t=k={STEPS}: {1e3 * ours:.1f} ms, x{ours / base:.2f} of the minimal loop (at most x1.15)")


def sparse(**options: Any) -> None:
    """One transposed product against the bare sparse products in it, and the memory of whole calls."""
    problem, X = bc.load_problem("newsgroups", **options), load_documents(**options).X
    at = Linearisation(problem.phi_at, problem.w0, problem.prepare(problem.lam))
    v, R = torch.ones_like(problem.w0), torch.ones(X.shape[0], 20, dtype=problem.dtype)
    bare = seconds(lambda: (X @ v.view(-1, 20), X.T @ R), 7)
    ours = seconds(lambda: at.d1_T(v), 7)
    step = seconds(lambda: problem.phi(problem.w0, problem.lam), 7)
    state = problem.d * problem.w0.element_size() / 2**20
    print(f"newsgroups: d = {problem.d}, a state is {state:.0f} MB; bare products X W and X^T R {1e3 * bare:.0f} ms")
    print(
        f"  transposed product {1e3 * ours:.0f} ms, x{ours / bare:.2f} of them; a step x{step / bare:.2f} (at most x2)"
    )
    for method, t, mode in RUNS:
        setup = f"p = bc.load_problem('newsgroups', **{options}); bc.hypergradient(p, 'aid-fp', 0)"
        peak = peak_megabytes(setup, f"bc.hypergradient(p, {method!r}, {t}, mode={mode!r})")
        print(f"  {method:6s} t={t:2d} {mode:10s} {peak:6.0f} MB = {peak / state:5.1f} states", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    overhead()
    try:
        sparse()
    except bc.BoundcheckError as error:
        print(f"20 newsgroups not at hand ({error}); random data of the same size instead", file=sys.stderr)
        sparse(synthetic=True, size=6282, features=101631, classes=20)


if __name__ == "__main__":
    main()

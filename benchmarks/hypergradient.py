"""One hypergradient, as ratios in one run: ``make bench``.

The overhead of `hypergradient` over a minimal autograd loop on LR, and time and memory on 20 newsgroups: 2 million
unknowns with sparse data, where AID must keep to a few states and checkpointed ITD to √t of them.
"""

from __future__ import annotations

import sys

import torch
from clock import peak_megabytes, seconds
from rivals import plain

import boundcheck as bc

STEPS = 100


def overhead() -> None:
    problem = bc.load_problem("lr")
    lam = problem.lam
    for name, ours, minimal in (
        ("aid-fp", lambda: bc.hypergradient(problem, "aid-fp", STEPS), lambda: plain.minimal_aid_fp(problem, lam, STEPS, STEPS)),
        ("itd", lambda: bc.hypergradient(problem, "itd", STEPS), lambda: plain.minimal_itd(problem, lam, STEPS)),
    ):
        base, mine = seconds(minimal, 30), seconds(ours, 30)
        print(f"lr {name:6s} t=k={STEPS}: {1e3 * mine:.1f} ms, x{mine / base:.2f} of the minimal loop (at most x1.15)")


def sparse(spec: str) -> None:
    """One transposed product against the bare sparse products in it, and the memory of whole calls."""
    problem = eval(spec, {"bc": bc, "torch": torch})
    from boundcheck.problems.newsgroups import bare_products
    from boundcheck.products import Linearisation

    at = Linearisation(problem.phi_at, problem.w0, problem.prepare(problem.lam))
    v = torch.ones_like(problem.w0)
    bare = seconds(bare_products(problem), 5)
    ours = seconds(lambda: at.d1_T(v), 5)
    step = seconds(lambda: problem.phi(problem.w0, problem.lam), 5)
    state = problem.d * problem.w0.element_size() / 2**20
    print(f"{problem.name}: d = {problem.d}, a state is {state:.0f} MB")
    print(f"  a product with the transposed Jacobian {1e3 * ours:.0f} ms, x{ours / bare:.2f} of its bare sparse products (at most x2)")
    print(f"  a step {1e3 * step:.0f} ms, x{step / bare:.2f}")
    for method, t, mode in (("aid-fp", 10, "auto"), ("aid-fp", 40, "auto"), ("aid-cg", 40, "auto"), ("itd", 10, "checkpoint"), ("itd", 40, "checkpoint"), ("itd", 40, "reverse")):
        peak = peak_megabytes(f"p = {spec}", f"bc.hypergradient(p, {method!r}, {t}, mode={mode!r})")
        print(f"  {method:6s} t={t} {mode:10s} {peak:6.0f} MB = {peak / state:5.1f} states", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    overhead()
    try:
        bc.load_problem("newsgroups")
        sparse("bc.load_problem('newsgroups')")
    except bc.BoundcheckError as error:
        print(f"20 newsgroups not at hand ({error}); random data of the same size instead", file=sys.stderr)
        sparse("bc.load_problem('newsgroups', synthetic=True, size=6282, features=101631, classes=20)")


if __name__ == "__main__":
    main()
